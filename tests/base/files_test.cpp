#include "base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/refusal.h"
#include "support/catch.h"
#include "support/temp_dir.h"

namespace ttrace::base::files_test {
namespace {

using test::check_refused;

TEST_CASE("a text is read whole") {
  const test::TempDir dir;
  const std::string text = std::string(100'000, 'x') + "\n";
  test::write_file(dir.file("text"), text);
  CHECK(read_text(dir.file("text")) == text);
}

TEST_CASE("what is no text to read is refused, with the reason") {
  const test::TempDir dir;
  check_refused([&] { read_text(dir.file("absent")); }, {"absent", "No such file"});
  check_refused([&] { read_text(dir.path()); }, {dir.path(), "not a regular file"});
  check_refused([&] { read_text("/dev/zero"); }, {"/dev/zero: not a regular file"});
  REQUIRE(::mkfifo(dir.file("pipe").c_str(), 0600) == 0);
  check_refused([&] { read_text(dir.file("pipe")); }, {"not a regular file"});
  test::write_file(dir.file("empty"), "");
  check_refused([&] { read_text(dir.file("empty")); }, {"empty: is empty"});
  if (::geteuid() == 0) return;  // who may read everything
  test::write_file(dir.file("secret"), "x");
  REQUIRE(::chmod(dir.file("secret").c_str(), 0) == 0);
  check_refused([&] { read_text(dir.file("secret")); }, {"secret", "permission denied"});
}

TEST_CASE("a text larger than any run's is refused before it is read") {
  const test::TempDir dir;
  test::write_file(dir.file("sparse"), "{");
  std::filesystem::resize_file(dir.file("sparse"), std::uint64_t{1} << 42);
  check_refused([&] { read_text(dir.file("sparse")); },
                {"sparse", "has 4398046511104 bytes", "1 GiB"});
}

using test::check_refused;
using test::TempDir;
using Names = std::vector<std::string>;

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST_CASE("a new file appears when it is stored, and not before") {
  const TempDir dir;
  const std::string path = dir.file("report.json");
  {
    NewFile file(path, Existing::kReplaced);
    CHECK_FALSE(std::filesystem::exists(path));
    CHECK(dir.entries().size() == 1);
    file.store("new");
  }
  CHECK(text_of(path) == "new");
  CHECK(dir.entries() == Names{"report.json"});
  { const NewFile abandoned(path, Existing::kReplaced); }
  CHECK(text_of(path) == "new");
  CHECK(dir.entries() == Names{"report.json"});
}

TEST_CASE("a new file gets the mode that the process gives") {
  const TempDir dir;
  const mode_t before = ::umask(027);
  NewFile(dir.file("x"), Existing::kReplaced).store("");
  ::umask(before);
  struct stat facts {};
  REQUIRE(::stat(dir.file("x").c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0640);
}

TEST_CASE("names of unfinished files differ, and are not too long") {
  const TempDir dir;
  std::set<std::string> names;
  for (int i = 0; i < 100; ++i) {
    names.insert(UnfinishedOutput(dir.file("x"), Existing::kReplaced).unfinished_path());
  }
  CHECK(names.size() == 100);
  const std::string longest(255, 'n');
  NewFile(dir.file(longest), Existing::kReplaced).store("text");
  CHECK(text_of(dir.file(longest)) == "text");
}

TEST_CASE("only regular files are replaced") {
  const TempDir dir;
  test::write_file(dir.file("victim"), "precious");
  std::filesystem::create_symlink(dir.file("victim"), dir.file("link"));
  std::filesystem::create_symlink(dir.file("nothing"), dir.file("dangling"));
  std::filesystem::create_directory(dir.file("folder"));
  REQUIRE(::mkfifo(dir.file("pipe").c_str(), 0600) == 0);
  const std::vector<std::pair<std::string, std::string>> refused{
      {dir.file("link"), "it is a link"},
      {dir.file("dangling"), "it is a link"},
      {dir.file("folder"), "it is a directory"},
      {dir.file("pipe"), "it is a device, pipe or socket"},
      {"/dev/null", "it is a device, pipe or socket"}};
  for (const auto& [path, reason] : refused) {
    CAPTURE(path);
    check_refused([&path = path] { NewFile(path, Existing::kReplaced); }, {path, reason});
    check_refused([&path = path] { NewFile(path, Existing::kKept); }, {path, "is there already"});
  }
  CHECK(text_of(dir.file("victim")) == "precious");
  CHECK(dir.entries().size() == 5);
}

TEST_CASE("what came to stand there meanwhile is not replaced either") {
  const TempDir dir;
  test::write_file(dir.file("victim"), "precious");
  NewFile replacing(dir.file("a"), Existing::kReplaced);
  std::filesystem::create_symlink(dir.file("victim"), dir.file("a"));
  check_refused([&] { replacing.store("new"); }, {dir.file("a"), "it is a link"});
  NewFile keeping(dir.file("b"), Existing::kKept);
  test::write_file(dir.file("b"), "old");
  check_refused([&] { keeping.store("new"); }, {dir.file("b"), "is there already"});
  CHECK(text_of(dir.file("b")) == "old");
  CHECK(text_of(dir.file("victim")) == "precious");
}

TEST_CASE("why a file cannot be written is told") {
  const TempDir dir;
  const std::string absent = dir.file("no/such/folder");
  check_refused([&] { NewFile(absent, Existing::kReplaced); },
                {absent, "cannot be written: No such file"});
  const int full = ::open("/dev/full", O_WRONLY);
  if (full < 0) return;
  CHECK(write_all(full, "text") == ENOSPC);
  ::close(full);
}

TEST_CASE("what a killed process leaves unfinished is removed by its parent") {
  const TempDir dir;
  share_unfinished_outputs();
  for (const int signal : {SIGKILL, SIGTERM, SIGHUP}) {
    CAPTURE(signal);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const NewFile file(dir.file("report.json"), Existing::kReplaced);
      const UnfinishedOutput folder(dir.file("run"), Existing::kKept);
      ::mkdir(folder.unfinished_path().c_str(), 0700);
      test::write_file(folder.unfinished_path() + "/rank_00000.h5", "x");
      NewFile(dir.file("done.json"), Existing::kReplaced).store("done");
      ::signal(signal, SIG_DFL);
      ::raise(signal);
      ::_exit(0);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    CHECK(dir.entries().size() == 3);
    remove_unfinished_outputs();
    CHECK(dir.entries() == Names{"done.json"});
  }
}

}  // namespace

}  // namespace ttrace::base::files_test
