// What was never written reads as zeros in HDF5, which would look like data.
#include "base/refusal.h"
#include "support/temp_dir.h"
#include "trace/hdf5/library/file.h"
#include "trace/hdf5/odd_file.h"

namespace ttrace::trace::hdf5::unwritten_test {
namespace {

using test::OddFile;
using test::TempDir;

void refuse(const std::string& path, const std::string& dataset, std::string_view part) {
  const auto file = File::open(path);
  test::check_refused([&] { file->open_dataset(dataset); }, {path, dataset, part});
}

TEST_CASE("datasets that were created and never written are refused") {
  const TempDir dir;
  {
    const OddFile odd(dir.file("t.h5"));
    odd.dataset("/plain", H5T_IEEE_F32LE, test::simple_space({4}), test::creation_list());
    odd.dataset("/scalar", H5T_IEEE_F32LE, test::scalar_space(), test::creation_list());
    odd.dataset("/chunked", H5T_IEEE_F32LE, test::simple_space({4}), test::chunked_list({2}));
    const hsize_t terabytes = hsize_t{1} << 42;
    odd.dataset("/huge", H5T_IEEE_F32LE, test::simple_space({terabytes}), test::creation_list());
  }
  refuse(dir.file("t.h5"), "/plain", "[4] elements were never written");
  refuse(dir.file("t.h5"), "/scalar", "never written");
  refuse(dir.file("t.h5"), "/chunked", "0 of 2 chunks were written");
  refuse(dir.file("t.h5"), "/huge", "never written");
}

TEST_CASE("a dataset with some of its chunks is refused") {
  const TempDir dir;
  {
    const LibraryLock lock;
    const OddFile odd(dir.file("t.h5"));
    // 3 × 2 chunks, of which the first row of two is written.
    const Handle space = test::simple_space({5, 4});
    const Handle object = odd.dataset("/x", H5T_IEEE_F32LE, space, test::chunked_list({2, 2}));
    const hsize_t origin[] = {0, 0};
    const hsize_t extent[] = {2, 4};
    test::done(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, origin, nullptr, extent, nullptr));
    const float values[8] = {};
    test::done(H5Dwrite(object.get(), H5T_IEEE_F32LE, test::simple_space({2, 4}).get(), space.get(),
                        H5P_DEFAULT, values));
  }
  refuse(dir.file("t.h5"), "/x", "2 of 6 chunks were written");
}

TEST_CASE("a dataset without elements has nothing to write") {
  const TempDir dir;
  {
    const OddFile odd(dir.file("t.h5"));
    odd.dataset("/plain", H5T_IEEE_F32LE, test::simple_space({0, 4}), test::creation_list());
  }
  CHECK(File::open(dir.file("t.h5"))->open_dataset("/plain")->facts().shape == tensor::Shape{0, 4});
}

}  // namespace
}  // namespace ttrace::trace::hdf5::unwritten_test
