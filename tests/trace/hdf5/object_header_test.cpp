#include "trace/hdf5/direct/object_header.h"

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "support/catch.h"
#include "support/temp_dir.h"
#include "trace/hdf5/library/checked_driver.h"
#include "trace/hdf5/odd_file.h"

namespace ttrace::trace::hdf5::object_header_test {
namespace {

using test::done;
using test::made;
using test::OddFile;
using test::TempDir;

// As the checked driver opens it.
Handle opened(const std::string& path) {
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  use_checked_driver(access.get());
  return {H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose};
}

std::optional<AttributeValue> attribute_of(const std::string& path, const std::string& name) {
  const LibraryLock lock;
  const Handle file = opened(path);
  REQUIRE(file);
  const Handle object(made(H5Oopen(file.get(), "/x", H5P_DEFAULT)), H5Oclose);
  return read_attribute(object.get(), name, path);
}

void number(const Handle& object, const char* name, hid_t type, std::int64_t value) {
  const Handle space = test::scalar_space();
  const Handle attribute(
      made(H5Acreate2(object.get(), name, type, space.get(), H5P_DEFAULT, H5P_DEFAULT)), H5Aclose);
  done(H5Awrite(attribute.get(), H5T_NATIVE_INT64, &value));
}

void variable_text(const Handle& object, const char* name, const char* value) {
  const Handle type = test::text_type(H5T_VARIABLE);
  const Handle space = test::scalar_space();
  const Handle attribute(
      made(H5Acreate2(object.get(), name, type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT)),
      H5Aclose);
  done(H5Awrite(attribute.get(), type.get(), &value));
}

void write_attributes(hid_t file) {
  const Handle space = test::simple_space({4});
  const Handle x(made(H5Dcreate2(file, "/x", H5T_IEEE_F32LE, space.get(), H5P_DEFAULT, H5P_DEFAULT,
                                 H5P_DEFAULT)),
                 H5Dclose);
  OddFile::attribute(x, "fixed", "float32");
  variable_text(x, "variable", "bfloat16");
  number(x, "rank", H5T_STD_I64LE, 4711);
  number(x, "small", H5T_STD_U8LE, 200);
  number(x, "negative", H5T_STD_I32LE, -1);
  number(x, "big_endian", H5T_STD_I32BE, 5);
}

void check_attributes(const std::string& path) {
  const auto text = [](const char* value) { return AttributeValue(std::string(value)); };
  CHECK(attribute_of(path, "fixed") == text("float32"));
  CHECK(attribute_of(path, "variable") == text("bfloat16"));
  CHECK(attribute_of(path, "rank") == AttributeValue(std::uint64_t{4711}));
  CHECK(attribute_of(path, "small") == AttributeValue(std::uint64_t{200}));
  CHECK(attribute_of(path, "negative") == AttributeValue());
  CHECK(attribute_of(path, "big_endian") == AttributeValue());
  CHECK_FALSE(attribute_of(path, "absent").has_value());
}

TEST_CASE("attributes are read past the library, in files of every version") {
  const TempDir dir;
  {
    const LibraryLock lock;
    write_attributes(OddFile(dir.file("old.h5")).id());
    const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
    done(H5Pset_libver_bounds(access.get(), H5F_LIBVER_LATEST, H5F_LIBVER_LATEST));
    const Handle file(
        made(H5Fcreate(dir.file("latest.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get())),
        H5Fclose);
    write_attributes(file.get());
  }
  check_attributes(dir.file("old.h5"));
  check_attributes(dir.file("latest.h5"));
}

TEST_CASE("an attribute of the root group is one of the file") {
  const TempDir dir;
  const std::string path = dir.file("t.h5");
  const LibraryLock lock;
  {
    const OddFile odd(path);
    const Handle root(made(H5Gopen2(odd.id(), "/", H5P_DEFAULT)), H5Gclose);
    number(root, "ttrace_rank", H5T_STD_I64LE, 3);
  }
  const Handle file = opened(path);
  CHECK(read_attribute(file.get(), "ttrace_rank", path) == AttributeValue(std::uint64_t{3}));
}

TEST_CASE("a damaged attribute is read within the file, and always as the same") {
  const TempDir dir;
  const std::string path = dir.file("t.h5");
  {
    const LibraryLock lock;
    write_attributes(OddFile(path).id());
  }
  std::ifstream in(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << in.rdbuf();
  const std::string sound = bytes.str();
  const std::size_t name = sound.find("fixed");
  REQUIRE(name != std::string::npos);
  const LibraryLock lock;
  std::size_t refused = 0;
  // The prefix of the message, the lengths of its parts, its name, type, shape and value.
  for (std::size_t at = name - 16; at < name + 48; ++at) {
    for (const int value : {0, 1, 0x10, 0x7f, 0xff}) {
      std::string damaged = sound;
      damaged[at] = static_cast<char>(value);
      test::write_file(dir.file("d.h5"), damaged);
      const auto read = [&]() -> std::optional<AttributeValue> {
        const Handle file = opened(dir.file("d.h5"));
        const Handle object(H5Oopen(file.get(), "/x", H5P_DEFAULT), H5Oclose);
        H5Eclear2(H5E_DEFAULT);
        if (!object) return std::nullopt;
        try {
          return read_attribute(object.get(), "fixed", "d.h5");
        } catch (const base::Error& error) {
          ++refused;
          return std::nullopt;
        }
      };
      const auto once = read();
      CHECK(once == read());
      const auto* text = once ? std::get_if<std::string>(&*once) : nullptr;
      if (text != nullptr) CHECK(damaged.find(*text) != std::string::npos);
    }
  }
  CHECK(refused > 0);
}

}  // namespace
}  // namespace ttrace::trace::hdf5::object_header_test
