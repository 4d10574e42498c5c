// Files that were cut short or damaged: an input error when they are opened or read, nothing worse.
#include <cstring>

#include "base/refusal.h"
#include "support/temp_dir.h"
#include "trace/hdf5/odd_file.h"
#include "trace/hdf5/trace_files.h"
#include "trace/open/open_trace.h"

namespace ttrace::trace::hdf5::damaged_file_test {
namespace {

using test::OddFile;
using test::TempDir;

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<float> numbers(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i) * 1.25F;
  return values;
}

// A trace with a contiguous, a chunked and a compressed dataset.
void write_trace(const std::string& path) {
  const OddFile odd(path);
  odd.manifest(test::kBareManifest);
  const std::vector<float> values = numbers(2000);
  const Handle space = test::simple_space({2000});
  odd.dataset("/plain", H5T_IEEE_F32LE, space, test::creation_list(), values.data());
  odd.dataset("/chunked", H5T_IEEE_F32LE, space, test::chunked_list({300}), values.data());
  const Handle deflate = test::chunked_list({300});
  test::done(H5Pset_deflate(deflate.get(), 6));
  odd.dataset("/deflate", H5T_IEEE_F32LE, space, deflate, values.data());
}

void read_all(const std::string& path) {
  const auto source = open_trace(path);
  for (const char* name : {"/plain", "/chunked", "/deflate"}) {
    const auto dataset = source->open(0, name);
    std::vector<float> values(2000);
    dataset->read(tensor::whole({2000}), std::as_writable_bytes(std::span(values)));
    if (values != numbers(2000)) throw std::runtime_error("wrong numbers, and no error");
  }
}

TEST_CASE("a file cut short at any length is refused") {
  const TempDir dir;
  write_trace(dir.file("t.h5"));
  const std::string bytes = bytes_of(dir.file("t.h5"));
  REQUIRE(bytes.size() > 17000);
  CHECK_NOTHROW(read_all(dir.file("t.h5")));
  std::vector<std::size_t> lengths{0, 1, 7, 8, 9, 47, 48, 95, 96, 97, bytes.size() - 1};
  for (std::size_t i = 1; i < 40; ++i) lengths.push_back(i * bytes.size() / 40);
  for (const std::size_t length : lengths) {
    CAPTURE(length);
    test::write_file(dir.file("cut.h5"), bytes.substr(0, length));
    test::check_refused([&] { read_all(dir.file("cut.h5")); }, {dir.file("cut.h5")});
  }
}

TEST_CASE("a truncated rank file is that rank's problem and the rest is read") {
  const TempDir dir;
  write_trace(dir.file("rank_00000.h5"));
  const std::string bytes = bytes_of(dir.file("rank_00000.h5"));
  test::write_file(dir.file("rank_00001.h5"), bytes.substr(0, bytes.size() / 2));
  test::write_file(dir.file("manifest.json"),
                   R"({"schema": "ttrace.manifest/2", "tensors": [],
                       "meshes": {"": {"axes": [{"name": "tp", "size": 2}]}}})");
  const auto source = open_trace(dir.path());
  CHECK_FALSE(source->rank_problem(0).has_value());
  CHECK(source->open(0, "/plain")->facts().shape == tensor::Shape{2000});
  const std::string problem = source->rank_problem(1).value_or("");
  CHECK(test::contains(problem, dir.file("rank_00001.h5")));
  CHECK(test::contains(problem, "not a readable HDF5 file"));
}

TEST_CASE("a chunk whose checksum is wrong is refused when it is read") {
  const TempDir dir;
  const std::string path = dir.file("t.h5");
  const std::vector<float> values = numbers(100);
  {
    const OddFile odd(path);
    odd.manifest(test::kBareManifest);
    const Handle checked = test::chunked_list({100});
    test::done(H5Pset_fletcher32(checked.get()));
    odd.dataset("/x", H5T_IEEE_F32LE, test::simple_space({100}), checked, values.data());
  }
  std::string bytes = bytes_of(path);
  std::string stored(400, '\0');
  std::memcpy(stored.data(), values.data(), stored.size());
  const std::size_t at = bytes.find(stored);
  REQUIRE(at != std::string::npos);
  bytes[at + 200] = static_cast<char>(bytes[at + 200] ^ 1);
  test::write_file(path, bytes);
  const auto dataset = open_trace(path)->open(0, "/x");
  std::vector<float> out(100);
  test::check_refused(
      [&] { dataset->read(tensor::whole({100}), std::as_writable_bytes(std::span(out))); },
      {path, "/x", "cannot be read"});
}

}  // namespace
}  // namespace ttrace::trace::hdf5::damaged_file_test
