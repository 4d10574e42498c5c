// The vectors that lib/synth and ttrace_torch both reproduce.
#include <bit>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "support/catch.h"
#include "synth/random.h"

namespace ttrace::synth {
namespace {

std::uint64_t hexadecimal(const std::string& text) { return std::stoull(text, nullptr, 16); }
std::uint32_t word(const std::string& text) {
  return static_cast<std::uint32_t>(hexadecimal(text));
}

std::vector<std::vector<std::string>> lines_of(const std::string& kind) {
  std::ifstream file(TTRACE_SOURCE_DIR "/tests/synth/vectors.txt");
  REQUIRE(file);
  std::vector<std::vector<std::string>> found;
  for (std::string line; std::getline(file, line);) {
    std::istringstream stream(line);
    std::vector<std::string> fields;
    for (std::string field; stream >> field;) fields.push_back(field);
    if (!fields.empty() && fields[0] == kind) found.push_back(fields);
  }
  REQUIRE(found.size() >= 3);
  return found;
}

std::uint32_t word_at(const std::string& key, const std::string& index) {
  std::uint32_t found = 0;
  Stream(hexadecimal(key)).words(std::stoull(index), {&found, 1});
  return found;
}

TEST_CASE("Philox gives the words that Random123 publishes") {
  for (const auto& line : lines_of("philox")) {
    const Counter counter = {word(line[1]), word(line[2]), word(line[3]), word(line[4])};
    const Words expected = {word(line[7]), word(line[8]), word(line[9]), word(line[10])};
    const std::uint64_t key = (hexadecimal(line[6]) << 32) | hexadecimal(line[5]);
    CHECK(philox4x32(counter, key) == expected);
  }
}

TEST_CASE("FNV-1a gives the hashes that its authors publish") {
  CHECK(fnv1a("") == 0xcbf29ce484222325);
  CHECK(fnv1a("a") == 0xaf63dc4c8601ec8c);
  CHECK(fnv1a("foobar") == 0x85944171f73967e8);
}

TEST_CASE("the keys of tensors, of noise and of plans are the collector's") {
  for (const auto& line : lines_of("tensor")) {
    CHECK(Stream::of_tensor(std::stoull(line[1]), line[2]).key() == hexadecimal(line[3]));
  }
  for (const auto& line : lines_of("noise")) {
    const Stream stream = Stream::of_noise(std::stoull(line[1]), std::stoull(line[2]), line[3],
                                           std::stoull(line[4]), line[5]);
    CHECK(stream.key() == hexadecimal(line[6]));
  }
  for (const auto& line : lines_of("plan")) {
    const Stream stream = Stream::of_plan(std::stoull(line[1]), line[2], std::stoull(line[3]),
                                          std::stoull(line[4]), std::stoull(line[5]), line[6]);
    CHECK(stream.key() == hexadecimal(line[7]));
  }
}

TEST_CASE("single values are the collector's, to the bit") {
  for (const auto& line : lines_of("uniform")) {
    CHECK(std::bit_cast<std::uint32_t>(uniform(word_at(line[1], line[2]))) == word(line[3]));
  }
  for (const auto& line : lines_of("normal")) {
    const float value = normal(word_at(line[1], line[4]), std::stod(line[2]), std::stod(line[3]));
    CHECK(std::bit_cast<std::uint32_t>(value) == word(line[5]));
  }
}

TEST_CASE("long stretches of values are the collector's, to the bit") {
  for (const auto& line : lines_of("sum")) {
    CAPTURE(line[1], line[5]);
    const Stream stream(hexadecimal(line[2]));
    const std::uint64_t first = std::stoull(line[5]);
    std::vector<float> values(std::stoull(line[6]));
    const tensor::Box box{{first}, {values.size()}};
    if (line[1] == "uniform") {
      fill_uniform(stream, {first + values.size()}, box, values);
    } else {
      fill_normal(stream, {first + values.size()}, box, std::stod(line[3]), std::stod(line[4]),
                  values);
    }
    std::string bytes;
    for (const float value : values) {
      const auto bits = std::bit_cast<std::uint32_t>(value);
      for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(bits >> shift);
    }
    CHECK(fnv1a(bytes) == hexadecimal(line[7]));
  }
}

}  // namespace
}  // namespace ttrace::synth
