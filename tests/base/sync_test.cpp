#include "base/sync.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "support/catch.h"
#include "support/temp_dir.h"

namespace ttrace::base::sync_test {
namespace {

TEST_CASE("files, folders and all that is in them are synced") {
  const test::TempDir dir;
  std::filesystem::create_directories(dir.file("folder/inner"));
  test::write_file(dir.file("folder/inner/file"), "text");
  test::write_file(dir.file("empty"), "");
  CHECK(sync_all_of(dir.file("folder")) == 0);
  CHECK(sync_all_of(dir.file("empty")) == 0);
  CHECK(sync_folder_of(dir.file("empty")) == 0);
  CHECK(sync_folder_of("a_file_here") == 0);
}

TEST_CASE("a folder behind a link is synced, a link is not followed") {
  const test::TempDir dir;
  std::filesystem::create_directory(dir.file("folder"));
  std::filesystem::create_symlink("folder", dir.file("link"));
  CHECK(sync_folder_of(dir.file("link/new")) == 0);
  CHECK(sync_all_of(dir.file("link")) == ELOOP);
}

TEST_CASE("what is not there cannot be synced") {
  const test::TempDir dir;
  CHECK(sync_all_of(dir.file("absent")) == ENOENT);
  CHECK(sync_folder_of(dir.file("absent/file")) == ENOENT);
}

}  // namespace
}  // namespace ttrace::base::sync_test
