#include "base/log.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <sstream>

#include "support/catch.h"
#include "support/temp_dir.h"

namespace ttrace::base {
namespace {

// What `action` writes to stderr, at file-descriptor level.
std::string stderr_of(const std::function<void()>& action) {
  const test::TempDir dir;
  std::fflush(stderr);
  const int before = ::dup(STDERR_FILENO);
  std::FILE* file = std::fopen(dir.file("err").c_str(), "w");
  REQUIRE(before >= 0);
  REQUIRE(file != nullptr);
  ::dup2(::fileno(file), STDERR_FILENO);
  action();
  std::fflush(stderr);
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  std::fclose(file);
  std::ifstream in(dir.file("err"));
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void say_everything() {
  inform("reading");
  warn("slow {} disk");  // braces are text, not a format
  report_error("failed");
}

TEST_CASE("the log level decides what reaches stderr") {
  const std::string warning = "ttrace: warning: slow {} disk\n";
  const std::string error = "ttrace: failed\n";
  CHECK(stderr_of(say_everything) == warning + error);
  set_log_level(LogLevel::kVerbose);
  CHECK(stderr_of(say_everything) == "ttrace: reading\n" + warning + error);
  set_log_level(LogLevel::kQuiet);
  CHECK(stderr_of(say_everything) == error);
  set_log_level(LogLevel::kNormal);
  CHECK(stderr_of(say_everything) == warning + error);
}

}  // namespace
}  // namespace ttrace::base
