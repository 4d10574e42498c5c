// What is read past the library is what the library reads, and nothing else is read past it.
#include "trace/hdf5/direct/direct_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "base/refusal.h"
#include "support/temp_dir.h"
#include "trace/hdf5/library/datatype.h"
#include "trace/hdf5/library/file.h"
#include "trace/hdf5/odd_file.h"

namespace ttrace::trace::hdf5::direct_file_test {
namespace {

using tensor::DType;
using test::done;
using test::made;
using test::OddFile;
using test::TempDir;

class Descriptor {
 public:
  explicit Descriptor(const std::string& path) : file_{::open(path.c_str(), O_RDONLY)} {
    struct stat status {};
    REQUIRE(::fstat(file_.descriptor, &status) == 0);
    file_.end = static_cast<std::uint64_t>(status.st_size);
    file_.changed = status.st_mtim;
  }
  ~Descriptor() { ::close(file_.descriptor); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  const OpenFile& get() const { return file_; }

 private:
  OpenFile file_;
};

// Where the library says that the header lies.
std::uint64_t address_of(const std::string& path, const std::string& dataset) {
  const LibraryLock lock;
  const Handle file(made(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT)), H5Fclose);
  const Handle object(made(H5Oopen(file.get(), dataset.c_str(), H5P_DEFAULT)), H5Oclose);
  H5O_info_t info;
#if H5_VERSION_GE(1, 12, 0)
  done(H5Oget_info3(object.get(), &info, H5O_INFO_BASIC));
  haddr_t address = HADDR_UNDEF;
  done(H5VLnative_token_to_addr(object.get(), info.token, &address));
  return address;
#else
  done(H5Oget_info2(object.get(), &info, H5O_INFO_BASIC));
  return info.addr;
#endif
}

std::optional<DatasetHeader> header_of(const std::string& path, const std::string& dataset) {
  const std::uint64_t address = address_of(path, dataset);
  return read_dataset_header(Descriptor(path).get(), address, path);
}

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST_CASE("a plain header has every dtype, any shape, and the place of the elements") {
  const TempDir dir;
  const std::string path = dir.file("t.h5");
  const std::vector<std::vector<hsize_t>> shapes{{}, {1}, {3, 2}, {2, 1, 3}, {1, 1, 2, 1, 3}};
  std::vector<std::byte> values(64);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::byte>(i % 2);
  {
    const OddFile odd(path);
    for (const DType dtype : tensor::kAllDTypes) {
      for (const auto& shape : shapes) {
        odd.dataset("/" + std::string(tensor::dtype_name(dtype)) + std::to_string(shape.size()),
                    make_datatype(dtype).get(),
                    shape.empty() ? test::scalar_space() : test::simple_space(shape),
                    test::creation_list(), values.data());
      }
    }
  }
  const std::string file = text_of(path);
  for (const DType dtype : tensor::kAllDTypes) {
    for (const auto& shape : shapes) {
      const std::string name =
          "/" + std::string(tensor::dtype_name(dtype)) + std::to_string(shape.size());
      CAPTURE(name);
      const auto header = header_of(path, name);
      REQUIRE(header.has_value());
      CHECK(header->facts.dtype == dtype);
      CHECK(header->facts.shape == tensor::Shape(shape.begin(), shape.end()));
      CHECK(header->bytes == tensor::byte_count(header->facts.shape, dtype));
      CHECK(file.substr(header->offset, header->bytes) ==
            std::string(reinterpret_cast<const char*>(values.data()), header->bytes));
    }
  }
}

TEST_CASE("attributes and extents that may grow leave a header plain") {
  const TempDir dir;
  const std::string path = dir.file("t.h5");
  {
    const OddFile odd(path);
    const Handle one = odd.four_floats("/one");
    OddFile::attribute(one, "ttrace_dtype", "float32");
    const Handle many = odd.four_floats("/many");
    // More than a header has room for: they continue elsewhere.
    for (const char* name : {"a", "b", "c", "d", "e", "f"}) {
      OddFile::attribute(many, name, std::string(200, 'x'));
    }
    OddFile::attribute(many, "ttrace_dtype", "float32");
    const hsize_t extent = 4, most = 4;
    const Handle space(made(H5Screate_simple(1, &extent, &most)), H5Sclose);
    const float values[] = {1, 2, 3, 4};
    odd.dataset("/bounded", H5T_IEEE_F32LE, space, test::creation_list(), values);
  }
  for (const char* name : {"/one", "/many", "/bounded"}) {
    CAPTURE(name);
    const auto header = header_of(path, name);
    REQUIRE(header.has_value());
    CHECK(header->facts.shape == tensor::Shape{4});
  }
}

TEST_CASE("what is not plain is left to the library") {
  const TempDir dir;
  const std::string path = dir.file("t.h5");
  test::write_file(dir.file("raw.bin"), std::string(16, 'r'));
  {
    const OddFile odd(path);
    const Handle space = test::simple_space({4});
    const float values[] = {1, 2, 3, 4};
    odd.dataset("/chunked", H5T_IEEE_F32LE, space, test::chunked_list({2}), values);
    const Handle compact = test::creation_list();
    done(H5Pset_layout(compact.get(), H5D_COMPACT));
    odd.dataset("/compact", H5T_IEEE_F32LE, space, compact, values);
    const Handle external = test::creation_list();
    done(H5Pset_external(external.get(), dir.file("raw.bin").c_str(), 0, 16));
    odd.dataset("/external", H5T_IEEE_F32LE, space, external);
    odd.dataset("/unwritten", H5T_IEEE_F32LE, space, test::creation_list());
    odd.dataset("/big_endian", H5T_IEEE_F32BE, space, test::creation_list(), values);
    odd.dataset("/empty", H5T_IEEE_F32LE, test::simple_space({0, 3}), test::creation_list());
    OddFile::attribute(odd.four_floats("/wrong"), "ttrace_dtype", "float64");
    OddFile::attribute(odd.four_floats("/longer"), "ttrace_dtype", "float32x");
    const Handle shared = make_datatype(DType::kFloat32);
    done(H5Tcommit2(odd.id(), "/type", shared.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    odd.dataset("/committed", shared.get(), space, test::creation_list(), values);
    odd.four_floats("/group/member");
  }
  for (const char* name : {"/chunked", "/compact", "/external", "/unwritten", "/big_endian",
                           "/empty", "/wrong", "/longer", "/committed", "/group", "/type"}) {
    CAPTURE(name);
    CHECK_FALSE(header_of(path, name).has_value());
  }
  const auto file = File::open(path);
  for (const char* name : {"/chunked", "/compact", "/committed"}) {
    CAPTURE(name);
    std::vector<float> out(4);
    file->open_dataset(name)->read(tensor::whole({4}), std::as_writable_bytes(std::span(out)));
    CHECK(out == std::vector<float>{1, 2, 3, 4});
  }
  test::check_refused([&] { file->open_dataset("/wrong"); }, {path, "/wrong", "float64"});
  test::check_refused([&] { file->open_dataset("/unwritten"); }, {path, "never written"});
  CHECK(file->open_dataset("/empty")->facts().shape == tensor::Shape{0, 3});
}

TEST_CASE("files of another make are read by the library") {
  const TempDir dir;
  const float values[] = {1, 2, 3, 4};
  const auto write = [&](const std::string& path, hid_t creation, hid_t access) {
    const LibraryLock lock;
    const Handle file(made(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation, access)), H5Fclose);
    const Handle object(
        made(H5Dcreate2(file.get(), "/x", H5T_IEEE_F32LE, test::simple_space({4}).get(),
                        H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)),
        H5Dclose);
    done(H5Dwrite(object.get(), H5T_IEEE_F32LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
  };
  {
    const LibraryLock lock;
    const Handle user_block(made(H5Pcreate(H5P_FILE_CREATE)), H5Pclose);
    done(H5Pset_userblock(user_block.get(), 512));
    write(dir.file("user_block.h5"), user_block.get(), H5P_DEFAULT);
    const Handle narrow(made(H5Pcreate(H5P_FILE_CREATE)), H5Pclose);
    done(H5Pset_sizes(narrow.get(), 4, 4));
    write(dir.file("narrow.h5"), narrow.get(), H5P_DEFAULT);
    const Handle latest(made(H5Pcreate(H5P_FILE_ACCESS)), H5Pclose);
    done(H5Pset_libver_bounds(latest.get(), H5F_LIBVER_LATEST, H5F_LIBVER_LATEST));
    write(dir.file("latest.h5"), H5P_DEFAULT, latest.get());
  }
  for (const char* name : {"user_block.h5", "narrow.h5", "latest.h5"}) {
    CAPTURE(name);
    std::vector<float> out(4);
    File::open(dir.file(name))
        ->open_dataset("/x")
        ->read(tensor::whole({4}), std::as_writable_bytes(std::span(out)));
    CHECK(out == std::vector<float>{1, 2, 3, 4});
  }
}

TEST_CASE("a header damaged in any byte is read within the file or not at all") {
  const TempDir dir;
  const std::string path = dir.file("t.h5");
  {
    const OddFile odd(path);
    const Handle x = odd.four_floats("/x");
    for (const char* name : {"a", "b", "c"}) OddFile::attribute(x, name, std::string(100, 'x'));
    OddFile::attribute(x, "ttrace_dtype", "float32");
  }
  const std::uint64_t address = address_of(path, "/x");
  const std::string sound = text_of(path);
  std::size_t plain = 0;
  for (std::uint64_t at = address; at < sound.size(); ++at) {
    for (const int value : {0, 1, 0x10, 0x7f, 0xff}) {
      std::string damaged = sound;
      damaged[at] = static_cast<char>(value);
      test::write_file(dir.file("d.h5"), damaged);
      const auto header = read_dataset_header(Descriptor(dir.file("d.h5")).get(), address, "d.h5");
      if (!header) continue;
      ++plain;
      if (header->bytes == 0 || header->bytes > damaged.size() ||
          header->offset > damaged.size() - header->bytes ||
          header->bytes != tensor::byte_count(header->facts.shape, header->facts.dtype)) {
        FAIL("byte " << at << " as " << value);
      }
    }
  }
  CHECK(plain > 0);
  for (std::uint64_t at = 0; at < sound.size(); ++at) {
    read_dataset_header(Descriptor(path).get(), at, path);
  }
  CHECK_FALSE(read_dataset_header(Descriptor(path).get(), sound.size() + 1, path));
  CHECK_FALSE(read_dataset_header(Descriptor(path).get(), HADDR_UNDEF, path));
}

}  // namespace
}  // namespace ttrace::trace::hdf5::direct_file_test
