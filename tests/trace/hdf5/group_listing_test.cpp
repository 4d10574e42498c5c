#include "base/refusal.h"
#include "support/temp_dir.h"
#include "trace/hdf5/library/file.h"
#include "trace/hdf5/odd_file.h"

namespace ttrace::trace::hdf5::group_listing_test {
namespace {

using test::done;
using test::made;
using test::OddFile;
using test::TempDir;

constexpr std::size_t kMembers = 300;

std::string member(std::size_t i) { return "x" + std::to_string(i); }

// A group of many datasets and two links that lead away, in the form of HDF5's version.
void write_group(const std::string& path, H5F_libver_t version) {
  const LibraryLock lock;
  const Handle access(made(H5Pcreate(H5P_FILE_ACCESS)), H5Pclose);
  done(H5Pset_libver_bounds(access.get(), version, H5F_LIBVER_LATEST));
  const Handle file(made(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get())),
                    H5Fclose);
  const Handle group(made(H5Gcreate2(file.get(), "/g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)),
                     H5Gclose);
  for (std::size_t i = 0; i < kMembers; ++i) {
    const auto value = static_cast<float>(i);
    const Handle object(
        made(H5Dcreate2(group.get(), member(i).c_str(), H5T_IEEE_F32LE, test::scalar_space().get(),
                        H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)),
        H5Dclose);
    done(H5Dwrite(object.get(), H5T_IEEE_F32LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, &value));
  }
  done(H5Lcreate_soft("/g/x0", group.get(), "soft", H5P_DEFAULT, H5P_DEFAULT));
  done(H5Lcreate_external("other.h5", "/x", group.get(), "out", H5P_DEFAULT, H5P_DEFAULT));
}

TEST_CASE("a listing has every hard link of a group, in either form of groups") {
  const TempDir dir;
  for (const H5F_libver_t version : {H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST}) {
    const std::string path = dir.file("t" + std::to_string(version) + ".h5");
    CAPTURE(path);
    write_group(path, version);
    {
      const LibraryLock lock;
      const Handle file(made(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT)), H5Fclose);
      const Handle group(made(H5Gopen2(file.get(), "/g", H5P_DEFAULT)), H5Gclose);
      CHECK_FALSE(list_group(group.get(), kMembers).has_value());
      const auto listing = list_group(group.get(), kMembers + 2);
      REQUIRE(listing.has_value());
      CHECK(listing->size() == kMembers);
      CHECK(listing->address_of("soft") == HADDR_UNDEF);
      CHECK(listing->address_of("out") == HADDR_UNDEF);
      CHECK(listing->address_of("x") == HADDR_UNDEF);
      for (std::size_t i = 0; i < kMembers; ++i) {
        H5L_info_t info;
        done(H5Lget_info(group.get(), member(i).c_str(), &info, H5P_DEFAULT));
        if (listing->address_of(member(i)) != header_address(group.get(), info)) FAIL(i);
      }
    }
    const auto file = File::open(path);
    for (const std::size_t i : {std::size_t{0}, std::size_t{17}, kMembers - 1}) {
      float value = -1;
      file->open_dataset("/g/" + member(i))
          ->read(tensor::whole({}), std::as_writable_bytes(std::span(&value, 1)));
      CHECK(value == static_cast<float>(i));
    }
    test::check_refused([&] { file->open_dataset("/g/soft"); }, {"/g/soft", "soft or external"});
    test::check_refused([&] { file->open_dataset("/g/out"); }, {"/g/out", "soft or external"});
    test::check_refused([&] { file->open_dataset("/g/y"); }, {"/g/y", "no such dataset"});
  }
}

}  // namespace
}  // namespace ttrace::trace::hdf5::group_listing_test
