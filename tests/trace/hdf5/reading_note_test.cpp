#include <sys/wait.h>
#include <unistd.h>

#include "base/refusal.h"
#include "support/temp_dir.h"
#include "trace/hdf5/library/file.h"
#include "trace/hdf5/odd_file.h"
#include "trace/hdf5/trace_files.h"

namespace ttrace::trace::hdf5::reading_note_test {
namespace {

TEST_CASE("a note lasts as long as the work on its file") {
  share_reading_note();
  CHECK(noted_file().empty());
  {
    const ReadingNote note("a.h5");
    CHECK(noted_file() == "a.h5");
  }
  CHECK(noted_file().empty());
}

TEST_CASE("the note of a child that dies is read by its parent") {
  share_reading_note();
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    new ReadingNote("deadly.h5");  // never taken back, as in a crash
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(noted_file() == "deadly.h5");
  declare_damaged("deadly.h5");
  CHECK(noted_file().empty());
  CHECK(is_declared_damaged("deadly.h5"));
  CHECK_FALSE(is_declared_damaged("other.h5"));
}

TEST_CASE("a path too long for the note is not cut short") {
  share_reading_note();
  const ReadingNote note(std::string(100000, 'x'));
  CHECK(noted_file().empty());
}

TEST_CASE("a file declared damaged is not opened") {
  const test::TempDir dir;
  const std::string path = dir.file("t.h5");
  test::OddFile(path).four_floats("/x");
  CHECK_NOTHROW(File::open(path));
  declare_damaged(path);
  test::check_refused([&] { File::open(path); }, {path, "damaged"});
}

}  // namespace
}  // namespace ttrace::trace::hdf5::reading_note_test
