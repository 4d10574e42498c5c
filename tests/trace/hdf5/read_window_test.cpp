#include "trace/hdf5/direct/read_window.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/refusal.h"
#include "property/random.h"
#include "support/temp_dir.h"
#include "trace/hdf5/library/file.h"
#include "trace/hdf5/odd_file.h"

namespace ttrace::trace::hdf5::read_window_test {
namespace {

// A file of random bytes that is open. Openings of tests have numbers that HDF5's files never
// reach.
class RandomFile {
 public:
  RandomFile(const test::TempDir& dir, std::size_t bytes, std::uint64_t number)
      : path_(dir.file(std::to_string(number))) {
    test::Random random(number);
    for (std::size_t i = 0; i < bytes; ++i) {
      content_.push_back(static_cast<char>(random.between(0, 255)));
    }
    test::write_file(path_, content_);
    opened_.descriptor = ::open(path_.c_str(), O_RDWR);
    struct stat status {};
    REQUIRE(::fstat(opened_.descriptor, &status) == 0);
    opened_.end = static_cast<std::uint64_t>(status.st_size);
    opened_.changed = status.st_mtim;
    opened_.opening = (std::uint64_t{1} << 40) + number;
  }
  ~RandomFile() { ::close(opened_.descriptor); }
  RandomFile(const RandomFile&) = delete;
  RandomFile& operator=(const RandomFile&) = delete;

  OpenFile& opened() { return opened_; }
  const OpenFile& opened() const { return opened_; }
  const std::string& path() const { return path_; }
  std::uint64_t size() const { return content_.size(); }

  // Whether a window gives the bytes, and gives no others.
  bool reads(std::uint64_t offset, std::size_t bytes, Unwritten unwritten = Unwritten::kNow) const {
    std::string out(bytes, '?');
    const auto to = std::as_writable_bytes(std::span(out));
    if (!read_in_window(opened_, offset, to, unwritten)) return false;
    if (out != content_.substr(offset, bytes)) FAIL(offset << ", " << bytes);
    return true;
  }

 private:
  std::string path_;
  std::string content_;
  OpenFile opened_;
};

TEST_CASE("any small piece of any of many files is read as it is stored", "[hdf5]") {
  const test::TempDir dir;
  std::vector<std::unique_ptr<RandomFile>> files;
  for (std::uint64_t i = 0; i < kMostWindows + 4; ++i) {
    files.push_back(std::make_unique<RandomFile>(dir, 1000 + i * 20'000, i));
  }
  const auto read_all = [&files](std::uint64_t seed) {
    test::Random random(seed);
    std::uint64_t refused = 0;
    for (int i = 0; i < 20'000; ++i) {
      const RandomFile& file = *files[random.between(0, files.size() - 1)];
      const std::uint64_t offset = random.between(0, file.size() - 1);
      const std::size_t most = std::min<std::uint64_t>(kLargestWindowRead, file.size() - offset);
      if (!file.reads(offset, random.between(0, most))) ++refused;
    }
    return refused;
  };
  CHECK(read_all(1) == 0);
  std::uint64_t refused = 1;
  std::jthread([&] { refused = read_all(2); }).join();  // with windows of its own
  CHECK(refused == 0);
}

TEST_CASE("pieces side by side are read in their order and in any other", "[hdf5]") {
  const test::TempDir dir;
  const RandomFile file(dir, 300'000, 1);
  for (std::uint64_t at = 0; at < file.size(); at += 100) CHECK(file.reads(at, 100));
  for (std::uint64_t at = file.size(); at > 0; at -= 100) CHECK(file.reads(at - 100, 100));
  // Headers and elements, a long way apart.
  for (std::uint64_t at = 0; at < 96'000; at += 64) {
    CHECK(file.reads(at, 64));
    CHECK(file.reads(200'000 + at, 64));
  }
}

TEST_CASE("large pieces and files without a number are left to others", "[hdf5]") {
  const test::TempDir dir;
  RandomFile file(dir, 20'000, 1);
  CHECK(file.reads(0, kLargestWindowRead));
  CHECK_FALSE(file.reads(0, kLargestWindowRead + 1));
  file.opened().opening = 0;
  CHECK_FALSE(file.reads(0, 10));
}

TEST_CASE("nothing that was read before comes from a file that was written since", "[hdf5]") {
  const test::TempDir dir;
  const RandomFile shorter(dir, 20'000, 1);
  const RandomFile rewritten(dir, 20'000, 2);
  CHECK(shorter.reads(100, 10));
  CHECK(rewritten.reads(100, 10));
  REQUIRE(::ftruncate(shorter.opened().descriptor, 150) == 0);
  REQUIRE(::pwrite(rewritten.opened().descriptor, "other", 5, 19'000) == 5);
  // Should the clock of the file system not have gone on since the file was made.
  const timespec later[] = {{0, UTIME_OMIT}, {1, 0}};
  REQUIRE(::futimens(rewritten.opened().descriptor, later) == 0);
  CHECK_FALSE(shorter.reads(100, 10));
  CHECK_FALSE(shorter.reads(1000, 10));
  CHECK_FALSE(rewritten.reads(100, 10));
}

TEST_CASE("a header is read as the file was when its window was filled", "[hdf5]") {
  const test::TempDir dir;
  const RandomFile file(dir, 200'000, 1);
  CHECK(file.reads(100, 10, Unwritten::kWhenFilled));
  REQUIRE(::pwrite(file.opened().descriptor, "other", 5, 120) == 5);
  const timespec later[] = {{0, UTIME_OMIT}, {1, 0}};
  REQUIRE(::futimens(file.opened().descriptor, later) == 0);
  CHECK(file.reads(120, 10, Unwritten::kWhenFilled));  // as it was
  CHECK_FALSE(file.reads(150'000, 10, Unwritten::kWhenFilled));
  CHECK_FALSE(file.reads(120, 10));
  CHECK_FALSE(file.reads(120, 10, Unwritten::kWhenFilled));  // nothing is known of it any more
}

// Two datasets side by side: the first read brings the second into the window.
TEST_CASE("a file that shrinks between two small datasets is refused as ever", "[hdf5]") {
  const test::TempDir dir;
  const std::string path = dir.file("t.h5");
  {
    const test::OddFile odd(path);
    odd.four_floats("/a");
    odd.four_floats("/b");
  }
  const auto file = File::open(path);
  const auto read = [&file](const Dataset& dataset) {
    std::vector<float> out(4);
    dataset.read(tensor::whole({4}), std::as_writable_bytes(std::span(out)));
    return out;
  };
  const auto a = file->open_dataset("/a");
  const auto b = file->open_dataset("/b");
  CHECK(read(*a) == std::vector<float>{1, 2, 3, 4});
  CHECK(read(*b) == std::vector<float>{1, 2, 3, 4});
  REQUIRE(::truncate(path.c_str(), 64) == 0);
  test::check_refused([&] { read(*b); }, {path + ": /b", "has become shorter"});
  test::check_refused([&] { file->open_dataset("/a"); }, {path + ": /a", "has become shorter"});
}

}  // namespace
}  // namespace ttrace::trace::hdf5::read_window_test
