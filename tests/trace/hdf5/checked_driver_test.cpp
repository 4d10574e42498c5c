#include "trace/hdf5/library/checked_driver.h"

#include "base/refusal.h"
#include "support/temp_dir.h"
#include "trace/hdf5/library/file.h"
#include "trace/hdf5/odd_file.h"

namespace ttrace::trace::hdf5::checked_driver_test {
namespace {

using test::OddFile;
using test::TempDir;

// A file with the dataset "/x" of 5,000 float32.
void write_values(const std::string& path, float value) {
  const OddFile odd(path);
  const std::vector<float> values(5000, value);
  odd.dataset("/x", H5T_IEEE_F32LE, test::simple_space({5000}), test::creation_list(),
              values.data());
}

std::vector<float> read(const Dataset& dataset) {
  std::vector<float> out(5000);
  dataset.read(tensor::whole({5000}), std::as_writable_bytes(std::span(out)));
  return out;
}

TEST_CASE("a file that shrinks while it is open gives an error and no numbers") {
  const TempDir dir;
  const std::string path = dir.file("t.h5");
  write_values(path, 1.5F);
  const auto dataset = File::open(path)->open_dataset("/x");
  CHECK(read(*dataset) == std::vector<float>(5000, 1.5F));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  test::check_refused([&] { read(*dataset); }, {path, "/x", "cannot be read"});
}

TEST_CASE("the same file is open twice and two files are told apart") {
  const TempDir dir;
  write_values(dir.file("a.h5"), 1);
  write_values(dir.file("b.h5"), 2);
  const auto first = File::open(dir.file("a.h5"))->open_dataset("/x");
  const auto again = File::open(dir.file("a.h5"))->open_dataset("/x");
  const auto other = File::open(dir.file("b.h5"))->open_dataset("/x");
  CHECK(read(*first).front() == 1);
  CHECK(read(*again).front() == 1);
  CHECK(read(*other).front() == 2);
}

TEST_CASE("the driver does not open files for writing") {
  const TempDir dir;
  const std::string path = dir.file("t.h5");
  write_values(path, 1);
  const LibraryLock lock;
  const Handle access(test::made(H5Pcreate(H5P_FILE_ACCESS)), H5Pclose);
  use_checked_driver(access.get());
  const Handle written(H5Fopen(path.c_str(), H5F_ACC_RDWR, access.get()), H5Fclose);
  CHECK_FALSE(static_cast<bool>(written));
  const Handle readable(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose);
  CHECK(static_cast<bool>(readable));
}

}  // namespace
}  // namespace ttrace::trace::hdf5::checked_driver_test
