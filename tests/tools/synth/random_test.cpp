#include "tools/synth/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "support/catch.h"
#include "tensor/box.h"

namespace ttrace::synth::random_test {
namespace {

constexpr double kUnit = 0x1p-28;
const Stream kStream = Stream::of_synthetic(1, "synth", "normal_test");

std::vector<std::uint32_t> some_words(std::size_t count) {
  std::vector<std::uint32_t> words(count);
  kStream.words(0, words);
  return words;
}

// Probability of a normal number above x.
double tail_of(double x) { return std::erfc(x / std::sqrt(2.0)) / 2; }

TEST_CASE("the table holds the quantiles that it says it holds, falling") {
  for (std::size_t i = 0; i < 256; ++i) {
    const double tail =
        std::ldexp(1 + static_cast<double>(i % 8) / 8, static_cast<int>(i / 8) - 33);
    // An entry is the nearest integer, so half a unit further out the probability is passed.
    const bool near = tail_of((kQuantiles[i] - 0.6) * kUnit) > tail &&
                      tail_of((kQuantiles[i] + 0.6) * kUnit) < tail;
    CAPTURE(i);
    CHECK(near);
    CHECK(kQuantiles[i] > kQuantiles[i + 1]);
  }
  CHECK(kQuantiles[256] == 0);
}

TEST_CASE("normal numbers have the moments of the normal distribution") {
  const std::size_t count = 400'000;
  double sums[5] = {};
  for (const std::uint32_t word : some_words(count)) {
    const double x = normal_units(word) * kUnit;
    for (int power = 1; power < 5; ++power) sums[power] += std::pow(x, power);
  }
  const auto n = static_cast<double>(count);
  // Four standard deviations of each mean, and what a thousandth of the variance makes.
  CHECK(std::abs(sums[1] / n) < 4 / std::sqrt(n));
  CHECK(std::abs(sums[2] / n - 1) < 4 * std::sqrt(2 / n) + 1e-3);
  CHECK(std::abs(sums[3] / n) < 4 * std::sqrt(15 / n));
  CHECK(std::abs(sums[4] / n - 3) < 4 * std::sqrt(96 / n) + 6e-3);
}

TEST_CASE("the largest distance to the normal distribution function is a matter of chance") {
  std::vector<double> values;
  for (const std::uint32_t word : some_words(400'000)) values.push_back(normal_units(word) * kUnit);
  std::sort(values.begin(), values.end());
  double distance = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double expected = 1 - tail_of(values[i]);
    const double found = (static_cast<double>(i) + 0.5) / static_cast<double>(values.size());
    distance = std::max(distance, std::abs(found - expected));
  }
  // Kolmogorov's 99.9 % quantile is 1.95.
  CHECK(distance * std::sqrt(static_cast<double>(values.size())) < 1.95);
}

TEST_CASE("the words at the ends give the numbers at the ends") {
  CHECK(uniform(0) == -1.0F);
  CHECK(uniform(0xFFFFFFFF) == 1 - 0x1p-23F);
  CHECK(uniform(0x80000000) == 0.0F);
  CHECK(normal_units(0) == kQuantiles[0]);
  CHECK(normal_units(0x80000000) == -kQuantiles[0]);
  CHECK(normal_units(1) == kQuantiles[12]);
  // The probability next to 1/2 lies 2^-33 before it: a quarter of a unit of 2^-28 above 0, whose
  // distance from the last quantile is rounded down.
  CHECK(normal_units(0x7FFFFFFF) == 1);
  CHECK(normal_units(0xFFFFFFFF) == -1);
}

TEST_CASE("the sign is the top bit and nothing else") {
  for (const std::uint32_t word : some_words(1000)) {
    CHECK(normal_units(word ^ 0x80000000) == -normal_units(word));
  }
}

std::vector<std::uint32_t> part_of(const tensor::Shape& shape, const tensor::Box& box) {
  std::vector<std::uint32_t> words(tensor::volume(box));
  fill_random_words(kStream, shape, box, words);
  return words;
}

TEST_CASE("a part has the elements that the whole has there") {
  const tensor::Shape shape = {5, 7, 6};
  const std::vector<std::uint32_t> all = part_of(shape, tensor::whole(shape));
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    tensor::Box box{{}, {}};
    for (std::size_t d = 0; d < 3; ++d) {
      box.origin.push_back((seed * (d + 3)) % (shape[d] + 1));
      box.extent.push_back((seed / (d + 1)) % (shape[d] - box.origin[d] + 1));
    }
    const std::vector<std::uint32_t> part = part_of(shape, box);
    bool same = true;
    for (std::uint64_t i = 0; i < part.size(); ++i) {
      const tensor::Shape point = tensor::coordinates(box, i);
      same = same && part[i] == all[tensor::position(shape, point)];
    }
    CAPTURE(tensor::to_string(box));
    CHECK(same);
  }
}

TEST_CASE("a part of a tensor far larger than the memory is made alone") {
  const std::uint64_t rows = std::uint64_t{1} << 40;
  const tensor::Shape shape = {rows, 1'000'000};
  std::vector<std::uint32_t> expected(10);
  kStream.words(rows * 1'000'000 - 10, expected);
  CHECK(part_of(shape, {{rows - 1, 999'990}, {1, 10}}) == expected);
}

TEST_CASE("a 0-d tensor has one element, an empty one none") {
  CHECK(part_of({}, {{}, {}}).size() == 1);
  CHECK(part_of({}, {{}, {}}) == part_of({1}, {{0}, {1}}));
  CHECK(part_of({3, 0}, {{0, 0}, {3, 0}}).empty());
}

std::uint64_t hexadecimal(const std::string& text) { return std::stoull(text, nullptr, 16); }
std::uint32_t word(const std::string& text) {
  return static_cast<std::uint32_t>(hexadecimal(text));
}

std::vector<std::vector<std::string>> lines_of(const std::string& kind) {
  std::ifstream file(TTRACE_SOURCE_DIR "/tests/tools/synth/vectors.txt");
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
    const RandomWords expected = {word(line[7]), word(line[8]), word(line[9]), word(line[10])};
    const std::uint64_t key = (hexadecimal(line[6]) << 32) | hexadecimal(line[5]);
    CHECK(philox4x32(counter, key) == expected);
  }
}

TEST_CASE("FNV-1a gives the hashes that its authors publish") {
  CHECK(base::fnv1a("") == 0xcbf29ce484222325);
  CHECK(base::fnv1a("a") == 0xaf63dc4c8601ec8c);
  CHECK(base::fnv1a("foobar") == 0x85944171f73967e8);
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
    std::vector<std::uint32_t> words(std::stoull(line[6]));
    fill_random_words(stream, {first + words.size()}, {{first}, {words.size()}}, words);
    std::string bytes;
    for (const std::uint32_t one : words) {
      const float value =
          line[1] == "uniform" ? uniform(one) : normal(one, std::stod(line[3]), std::stod(line[4]));
      const auto bits = std::bit_cast<std::uint32_t>(value);
      for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(bits >> shift);
    }
    CHECK(base::fnv1a(bytes) == hexadecimal(line[7]));
  }
}

}  // namespace

}  // namespace ttrace::synth::random_test
