// A file is read by its table of ranges while it is what it was when it was finished, a copy of it
// too. Otherwise the library reads it, and gives the same values.
#include "trace/hdf5/sealed_ranges.h"

#include <fstream>

#include "base/refusal.h"
#include "support/temp_dir.h"
#include "trace/hdf5/library/file.h"
#include "trace/hdf5/odd_file.h"
#include "trace/hdf5/trace_files.h"
#include "trace/hdf5/writer.h"
#include "trace/open/open_trace.h"

namespace ttrace::trace::hdf5::sealed_ranges_test {
namespace {

namespace fs = std::filesystem;
using tensor::DType;
using test::check_refused;
using test::TempDir;

const std::vector<float> kX{1, 2, 3, 4};
const std::vector<float> kY{5, 6, 7, 8};

// A finished file with two contiguous tensors.
class Written {
 public:
  Written() : path(dir.file("t.h5")) {
    const auto sink = create_file(path, base::Existing::kReplaced);
    for (const auto& [name, values] : {std::pair("/a/x", kX), std::pair("/a/y", kY)}) {
      sink->create(name, DType::kFloat32, {4});
      sink->write(name, tensor::whole({4}), std::as_bytes(std::span(values)));
    }
    Manifest manifest;
    manifest.meshes.emplace("", Mesh{});
    sink->finish(manifest);
  }

  PlacedTable table() const { return File::open(path)->ranges_table().value(); }
  std::string text() const {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // Puts `bytes` at `at` of the file.
  void patch(std::uint64_t at, const std::string& bytes) const {
    test::write_file(path, text().replace(at, bytes.size(), bytes));
  }
  // A table that says something else, as if the file had been finished with it.
  void forge(const std::string& from, const std::string& to) const {
    PlacedTable forged = table();
    forged.text.replace(forged.text.find(from), from.size(), to);
    patch(forged.at, forged.text);
    seal_ranges(path, forged.text, forged.at);
  }
  std::string why_not_used() const {
    try {
      const auto file = File::open(path);
      const PlacedTable found = file->ranges_table().value();
      require_sealed(found.text, found.at, *file->opened());
      return "";
    } catch (const base::InputError& error) {
      return error.what();
    }
  }

  TempDir dir;
  std::string path;
};

std::vector<float> values_of(const std::string& path, const std::string& dataset) {
  std::vector<float> out(4);
  const auto file = File::open(path);
  file->open_dataset(dataset)->read(tensor::whole({4}), std::as_writable_bytes(std::span(out)));
  return out;
}

void check_read_by_library(const Written& written, const std::string& why) {
  CAPTURE(why);
  CHECK(written.why_not_used().find(why) != std::string::npos);
  CHECK(File::open(written.path)->ranges() == nullptr);
  CHECK(values_of(written.path, "/a/x") == kX);
  CHECK(values_of(written.path, "/a/y") == kY);
  const RangeCheck check = check_ranges(written.path);
  CHECK(check.findings.empty());
  CHECK(check.warning.find(why) != std::string::npos);
}

TEST_CASE("a finished file and its copy are read by their ranges, as the library reads them") {
  const Written written;
  const std::string copy = written.dir.file("copy.h5");
  fs::copy_file(written.path, copy);
  fs::last_write_time(copy, fs::file_time_type::clock::now() - std::chrono::hours(9));
  const std::string link = written.dir.file("link.h5");
  fs::create_symlink(copy, link);
  for (const std::string& path : {written.path, copy, link}) {
    CAPTURE(path);
    const auto ranges = File::open(path)->ranges();
    REQUIRE(ranges != nullptr);
    REQUIRE(ranges->open("/a/x") != nullptr);
    std::vector<float> out(4);
    ranges->open("/a/y")->read(tensor::whole({4}), std::as_writable_bytes(std::span(out)));
    CHECK(out == kY);
    CHECK(values_of(path, "/a/x") == kX);
    CHECK(check_ranges(path).findings.empty());
    CHECK(check_ranges(path).warning.empty());
    for (const char* name : {"/a", "/a/z", "/manifest", "/ranges", "/a/../a/x", "a/x"}) {
      CHECK(ranges->open(name) == nullptr);
    }
  }
}

TEST_CASE("what was changed after it was finished is read by the library") {
  const Written written;
  const std::string sound = written.text();
  SECTION("grown") {
    test::write_file(written.path, sound + std::string(8, '\0'));
    check_read_by_library(written, "it has " + std::to_string(sound.size() + 8) + " bytes");
  }
  SECTION("a header") {
    const std::size_t name = sound.find("ttrace_dtype");
    REQUIRE(name != std::string::npos);
    written.patch(name, "ttrace_dtypo");
    check_read_by_library(written, "headers are not those");
  }
  SECTION("the seal") {
    written.patch(written.table().at + range::Seal::kOffset + 8, "####");
    check_read_by_library(written, "headers are not those");
  }
  SECTION("the table") {
    written.patch(written.table().at, "ttrace.ranges/9\n");
    check_read_by_library(written, "no kind that this program knows");
  }
  SECTION("a dataset was moved and another has its name") {
    {
      const LibraryLock lock;
      const Handle file(test::made(H5Fopen(written.path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT)),
                        H5Fclose);
      test::done(H5Lmove(file.get(), "/a/x", file.get(), "/a/w", H5P_DEFAULT, H5P_DEFAULT));
      test::done(H5Lmove(file.get(), "/a/y", file.get(), "/a/x", H5P_DEFAULT, H5P_DEFAULT));
    }
    CHECK(File::open(written.path)->ranges() == nullptr);
    CHECK(values_of(written.path, "/a/x") == kY);
  }
  SECTION("elements alone: they are what they are now") {
    const std::string x(reinterpret_cast<const char*>(kX.data()), 16);
    const std::string y(reinterpret_cast<const char*>(kY.data()), 16);
    written.patch(sound.find(x), y);
    CHECK(File::open(written.path)->ranges() != nullptr);
    CHECK(values_of(written.path, "/a/x") == kY);
  }
}

TEST_CASE("a file that shrank is no trace any more") {
  const Written written;
  test::write_file(written.path, written.text().substr(0, written.text().size() - 8));
  check_refused([&] { open_trace(written.path); }, {written.path, "not a readable HDF5 file"});
}

TEST_CASE("entries of a sound seal that HDF5 contradicts are findings of lint") {
  const Written written;
  SECTION("a name that no dataset has") {
    written.forge("/a/x\n", "/a/q\n");
    CHECK(values_of(written.path, "/a/x") == kX);
    const RangeCheck check = check_ranges(written.path);
    REQUIRE(check.findings.size() == 1);
    CHECK(check.findings[0].find("/a/q, which HDF5 cannot open") != std::string::npos);
    check_refused([&] { File::open(written.path)->open_dataset("/a/../a/x"); }, {"/a/../a/x"});
  }
  SECTION("the place of another") {
    written.forge("/a/x\n/a/y\n", "/a/y\n/a/x\n");
    CHECK(check_ranges(written.path).findings.size() == 2);
  }
  SECTION("another type") {
    written.forge("float32 4", "int32 4 1");
    const auto findings = check_ranges(written.path).findings;
    REQUIRE(findings.size() == 2);
    CHECK(findings[0].find("has it as int32 [4, 1] at byte") != std::string::npos);
    CHECK(findings[0].find("HDF5 as float32 [4] at byte") != std::string::npos);
  }
}

TEST_CASE("a file of chunks, or none of ours, has no table") {
  const TempDir dir;
  const std::string path = dir.file("t.h5");
  const auto sink = create_file(path, base::Existing::kReplaced);
  sink->create("/x", DType::kFloat32, {4}, Storage{.chunk = {2}});
  sink->write("/x", tensor::whole({4}), std::as_bytes(std::span(kX)));
  Manifest manifest;
  manifest.meshes.emplace("", Mesh{});
  sink->finish(manifest);
  CHECK_FALSE(File::open(path)->has(kRangesDataset));
  CHECK(values_of(path, "/x") == kX);
  const std::string odd = dir.file("odd.h5");
  {
    const test::OddFile file(odd);
    file.four_floats("/ranges");
    file.four_floats("/x");
  }
  CHECK(values_of(odd, "/x") == kX);
  CHECK(check_ranges(odd).warning.find("no table of ranges") != std::string::npos);
}

}  // namespace
}  // namespace ttrace::trace::hdf5::sealed_ranges_test
