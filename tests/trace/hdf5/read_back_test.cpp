#include "trace/hdf5/read_back.h"

#include <fstream>
#include <memory>

#include "base/refusal.h"
#include "property/random.h"
#include "support/temp_dir.h"
#include "trace/hdf5/trace_files.h"
#include "trace/hdf5/writer.h"

namespace ttrace::trace::hdf5::read_back_test {
namespace {

using tensor::Box;
using tensor::DType;

// A finished file with the dataset "/d/x" [300, 400] of binary32, written in three boxes, and the
// checksums of what was handed in.
struct Written {
  test::TempDir dir;
  std::string path = dir.file("t.h5");
  WrittenChecksums checksums;
  std::vector<std::byte> bits;

  Written() {
    test::Random random(3);
    bits.resize(300 * 400 * 4);
    for (std::byte& byte : bits) byte = static_cast<std::byte>(random.bits());
    const auto sink = create_file(path, base::Existing::kReplaced);
    sink->create("/d/x", DType::kFloat32, {300, 400});
    checksums.begin("/d/x", {DType::kFloat32, {300, 400}});
    const auto all = std::span<const std::byte>(bits);
    std::size_t done = 0;
    for (const Box& box :
         {Box{{0, 0}, {300, 100}}, Box{{0, 100}, {1, 300}}, Box{{1, 100}, {299, 300}}}) {
      const std::size_t size = tensor::volume(box) * 4;
      sink->write("/d/x", box, all.subspan(done, size));
      checksums.add("/d/x", box, all.subspan(done, size));
      done += size;
    }
    Manifest manifest;
    manifest.meshes.emplace("", Mesh{});
    sink->finish(manifest);
  }

  void check() const { checksums.require_in(*File::open(path)); }

  // Changes the `count` bytes from that offset of the file, to their complement or to zeros.
  void damage(std::uint64_t offset, std::size_t count, bool to_zeros) const {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    std::string old(count, '\0');
    file.seekg(static_cast<std::streamoff>(offset));
    file.read(old.data(), static_cast<std::streamsize>(count));
    for (char& byte : old) byte = to_zeros ? '\0' : static_cast<char>(~byte);
    file.seekp(static_cast<std::streamoff>(offset));
    file.write(old.data(), static_cast<std::streamsize>(count));
    REQUIRE(file.flush());
  }

  // Where the elements begin in the file, which is contiguous.
  std::uint64_t start() const {
    std::ifstream file(path, std::ios::binary);
    const std::string all((std::istreambuf_iterator<char>(file)), {});
    const std::string first(reinterpret_cast<const char*>(bits.data()), 400);
    const std::size_t at = all.find(first);
    REQUIRE(at != std::string::npos);
    return at;
  }
};

TEST_CASE("a file that holds what was written to it passes", "[hdf5]") { Written().check(); }

TEST_CASE("what a disk has lost or changed is told", "[hdf5]") {
  const std::uint64_t element = 4;
  struct Case {
    std::uint64_t first;  // element
    std::size_t bytes;
    bool to_zeros;
  };
  for (const Case& one : std::vector<Case>{
           {0, 1, false}, {119'999, 1, false}, {250, 4, true}, {60'000, 4096, true}}) {
    const Written written;
    written.damage(written.start() + one.first * element, one.bytes, one.to_zeros);
    CAPTURE(one.first);
    test::check_refused([&] { written.check(); }, {"/d/x: its elements are not what was written"});
  }
}

TEST_CASE("a dataset that is not there, or of another type, is told", "[hdf5]") {
  const Written written;
  WrittenChecksums other;
  other.begin("/d/y", {DType::kFloat32, {2}});
  other.add("/d/y", tensor::whole({2}), std::vector<std::byte>(8));
  test::check_refused([&] { other.require_in(*File::open(written.path)); },
                      {"/d/y: there is no such dataset"});
  WrittenChecksums wider;
  wider.begin("/d/x", {DType::kFloat64, {300, 400}});
  wider.add("/d/x", tensor::whole({300, 400}), std::vector<std::byte>(300 * 400 * 8));
  test::check_refused([&] { wider.require_in(*File::open(written.path)); },
                      {"/d/x: its elements are not what was written"});
}

TEST_CASE("compressed chunks, scalars and nothing at all are read back too", "[hdf5]") {
  const test::TempDir dir;
  const std::string path = dir.file("t.h5");
  WrittenChecksums checksums;
  {
    const auto sink = create_file(path, base::Existing::kReplaced);
    const std::vector<std::byte> bytes(10 * 12 * 2, std::byte{7});
    sink->create("/c", DType::kBFloat16, {10, 12}, {{4, 5}, 6U, true});
    sink->write("/c", tensor::whole({10, 12}), bytes);
    checksums.begin("/c", {DType::kBFloat16, {10, 12}});
    checksums.add("/c", tensor::whole({10, 12}), bytes);
    sink->create("/s", DType::kFloat64, {});
    sink->write("/s", tensor::whole({}), std::span(bytes).first(8));
    checksums.begin("/s", {DType::kFloat64, {}});
    checksums.add("/s", tensor::whole({}), std::span(bytes).first(8));
    sink->create("/e", DType::kInt8, {0, 3});
    checksums.begin("/e", {DType::kInt8, {0, 3}});
    checksums.add("/e", tensor::whole({0, 3}), {});
    Manifest manifest;
    manifest.meshes.emplace("", Mesh{});
    sink->finish(manifest);
  }
  checksums.require_in(*File::open(path));
}

}  // namespace
}  // namespace ttrace::trace::hdf5::read_back_test
