// Datasets as a trace may and may not contain them: links, storage, filters.
#include <chrono>
#include <cstring>
#include <filesystem>

#include "base/refusal.h"
#include "support/temp_dir.h"
#include "trace/hdf5/library/file.h"
#include "trace/hdf5/odd_file.h"

namespace ttrace::trace::hdf5::stored_dataset_test {
namespace {

using test::check_refused;
using test::done;
using test::made;
using test::OddFile;
using test::TempDir;

// What opening `dataset` of the file says must have the dataset's name and all `parts`.
void refuse(const std::string& path, const std::string& dataset, std::string_view part) {
  const auto file = File::open(path);
  check_refused([&] { file->open_dataset(dataset); }, {path, dataset, part});
}

TEST_CASE("a chunked and compressed dataset reads as what was written") {
  const TempDir dir;
  std::vector<float> values(30 * 40);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 7;
  {
    const OddFile odd(dir.file("t.h5"));
    const Handle packed = test::chunked_list({7, 9});
    done(H5Pset_shuffle(packed.get()));
    done(H5Pset_deflate(packed.get(), 9));
    done(H5Pset_fletcher32(packed.get()));
    odd.dataset("/x", H5T_IEEE_F32LE, test::simple_space({30, 40}), packed, values.data());
  }
  const auto dataset = File::open(dir.file("t.h5"))->open_dataset("/x");
  CHECK(dataset->facts().dtype == tensor::DType::kFloat32);
  std::vector<float> out(30 * 40);
  dataset->read(tensor::whole({30, 40}), std::as_writable_bytes(std::span(out)));
  CHECK(out == values);
  std::vector<float> part(5 * 11);
  dataset->read({{6, 20}, {5, 11}}, std::as_writable_bytes(std::span(part)));
  CHECK(part.front() == values[6 * 40 + 20]);
  CHECK(part.back() == values[10 * 40 + 30]);
}

TEST_CASE("a dataset that is not there is told apart from one that is") {
  const TempDir dir;
  OddFile(dir.file("t.h5")).four_floats("/a/b");
  const auto file = File::open(dir.file("t.h5"));
  CHECK(file->has("/a/b") == true);
  CHECK(file->has("/a/c") == false);
  CHECK(file->open_dataset("/a/b")->facts().shape == tensor::Shape{4});
  refuse(dir.file("t.h5"), "/a/c", "no such dataset");
  refuse(dir.file("t.h5"), "/x/b", "no such dataset");
  refuse(dir.file("t.h5"), "/a/b/c", "no such dataset");
  refuse(dir.file("t.h5"), "/a", "not a dataset");
}

TEST_CASE("links that could leave the file are refused") {
  const TempDir dir;
  OddFile(dir.file("other.h5")).four_floats("/g/x");
  {
    const OddFile odd(dir.file("t.h5"));
    odd.four_floats("/real/x");
    done(H5Lcreate_soft("/real/x", odd.id(), "/soft", H5P_DEFAULT, H5P_DEFAULT));
    done(H5Lcreate_soft("/real", odd.id(), "/group", H5P_DEFAULT, H5P_DEFAULT));
    done(H5Lcreate_soft("/nowhere", odd.id(), "/dangling", H5P_DEFAULT, H5P_DEFAULT));
    done(H5Lcreate_external("other.h5", "/g/x", odd.id(), "/out", H5P_DEFAULT, H5P_DEFAULT));
    done(H5Lcreate_external("other.h5", "/g", odd.id(), "/outer", H5P_DEFAULT, H5P_DEFAULT));
    done(H5Lcreate_hard(odd.id(), "/real/x", odd.id(), "/hard", H5P_DEFAULT, H5P_DEFAULT));
  }
  const std::string path = dir.file("t.h5");
  refuse(path, "/soft", "soft or external link");
  refuse(path, "/dangling", "soft or external link");
  refuse(path, "/out", "soft or external link");
  const auto file = File::open(path);
  check_refused([&] { file->open_dataset("/group/x"); }, {"/group: ", "soft or external link"});
  check_refused([&] { file->open_dataset("/outer/x"); }, {"/outer: ", "soft or external link"});
  CHECK(file->open_dataset("/hard")->facts().shape == tensor::Shape{4});
}

TEST_CASE("external storage and virtual datasets are refused") {
  const TempDir dir;
  test::write_file(dir.file("raw.bin"), std::string(16, 'r'));
  OddFile(dir.file("other.h5")).four_floats("/x");
  {
    const OddFile odd(dir.file("t.h5"));
    const Handle external = test::creation_list();
    done(H5Pset_external(external.get(), dir.file("raw.bin").c_str(), 0, 16));
    const Handle space = test::simple_space({4});
    odd.dataset("/external", H5T_IEEE_F32LE, space, external);
    const Handle virtually = test::creation_list();
    done(H5Pset_virtual(virtually.get(), space.get(), dir.file("other.h5").c_str(), "/x",
                        space.get()));
    odd.dataset("/virtual", H5T_IEEE_F32LE, space, virtually);
  }
  refuse(dir.file("t.h5"), "/external", "external files");
  refuse(dir.file("t.h5"), "/virtual", "virtual dataset");
}

TEST_CASE("filters of the library that a trace may not use are refused") {
  const TempDir dir;
  {
    const OddFile odd(dir.file("t.h5"));
    const Handle space = test::simple_space({64});
    const Handle scaled = test::chunked_list({64});
    done(H5Pset_scaleoffset(scaled.get(), H5Z_SO_INT, 0));
    odd.dataset("/scaleoffset", H5T_STD_I32LE, space, scaled);
    const Handle bits = test::chunked_list({64});
    done(H5Pset_nbit(bits.get()));
    odd.dataset("/nbit", H5T_STD_I32LE, space, bits);
    if (H5Zfilter_avail(H5Z_FILTER_SZIP) > 0) {  // not in every build of the library
      const Handle szip = test::chunked_list({64});
      done(H5Pset_szip(szip.get(), H5_SZIP_NN_OPTION_MASK, 8));
      odd.dataset("/szip", H5T_STD_I32LE, space, szip);
    }
  }
  refuse(dir.file("t.h5"), "/scaleoffset", "HDF5 filter 6 is not allowed");
  refuse(dir.file("t.h5"), "/nbit", "HDF5 filter 5 is not allowed");
  if (File::open(dir.file("t.h5"))->has("/szip")) {
    refuse(dir.file("t.h5"), "/szip", "HDF5 filter 4 is not allowed");
  }
}

std::size_t pass_through(unsigned, std::size_t, const unsigned*, std::size_t bytes, std::size_t*,
                         void**) {
  return bytes;
}

TEST_CASE("a filter that nobody knows is refused") {
  const TempDir dir;
  constexpr H5Z_filter_t kUnknown = 300;
  {
    const LibraryLock lock;
    H5Z_class2_t filter{};
    filter.version = H5Z_CLASS_T_VERS;
    filter.id = kUnknown;
    filter.encoder_present = 1;
    filter.decoder_present = 1;
    filter.name = "unknown";
    filter.filter = pass_through;
    done(H5Zregister(&filter));
    {
      const OddFile odd(dir.file("t.h5"));
      const Handle list = test::chunked_list({4});
      done(H5Pset_filter(list.get(), kUnknown, H5Z_FLAG_OPTIONAL, 0, nullptr));
      const float values[] = {1, 2, 3, 4};
      odd.dataset("/x", H5T_IEEE_F32LE, test::simple_space({4}), list, values);
    }
    refuse(dir.file("t.h5"), "/x", "HDF5 filter 300 is not allowed");
    done(H5Zunregister(kUnknown));
  }
  refuse(dir.file("t.h5"), "/x", "HDF5 filter 300 is not allowed");
}

TEST_CASE("a dataset without a shape is refused") {
  const TempDir dir;
  {
    const OddFile odd(dir.file("t.h5"));
    const Handle space(made(H5Screate(H5S_NULL)), H5Sclose);
    odd.dataset("/x", H5T_IEEE_F32LE, space, test::creation_list());
  }
  refuse(dir.file("t.h5"), "/x", "null dataspace");
}

TEST_CASE("reading into a buffer of another size is a defect") {
  const TempDir dir;
  OddFile(dir.file("t.h5")).four_floats("/x");
  const auto dataset = File::open(dir.file("t.h5"))->open_dataset("/x");
  std::vector<std::byte> out(15);
  test::check_defect([&] { dataset->read(tensor::whole({4}), out); });
}

TEST_CASE("a file that is written while it is read gives no more numbers") {
  const TempDir dir;
  const std::string path = dir.file("t.h5");
  OddFile(path).four_floats("/x");
  const auto dataset = File::open(path)->open_dataset("/x");
  std::vector<float> out(4);
  const auto read = [&] {
    dataset->read(tensor::whole({4}), std::as_writable_bytes(std::span(out)));
  };
  read();
  CHECK(out == std::vector<float>{1, 2, 3, 4});
  const auto written = std::filesystem::last_write_time(path);
  std::filesystem::last_write_time(path, written + std::chrono::seconds(1));
  check_refused(read, {path, "/x", "has been written since it was opened"});
  std::filesystem::last_write_time(path, written);
  read();
  std::filesystem::resize_file(path, std::filesystem::file_size(path) + 1);
  std::filesystem::last_write_time(path, written);
  check_refused(read, {path, "/x", "has been written since it was opened"});
}

TEST_CASE("a file to which its job adds steps is read while it is written") {
  const TempDir dir;
  const std::string path = dir.file("t.h5");
  OddFile(path).four_floats("/x");
  const auto dataset = File::open(path, true)->open_dataset("/x");
  std::filesystem::resize_file(path, std::filesystem::file_size(path) + 1);
  std::vector<float> out(4);
  dataset->read(tensor::whole({4}), std::as_writable_bytes(std::span(out)));
  CHECK(out == std::vector<float>{1, 2, 3, 4});
}

}  // namespace
}  // namespace ttrace::trace::hdf5::stored_dataset_test
