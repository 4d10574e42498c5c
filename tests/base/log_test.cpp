#include "base/log.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <sstream>

#include "support/catch.h"
#include "support/temp_dir.h"

namespace ttrace::base::log_test {
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

TEST_CASE("the reason of an exit code is told even if quiet") {
  set_log_level(LogLevel::kQuiet);
  CHECK(stderr_of([] { warn_even_if_quiet("rank 3 is gone"); }) ==
        "ttrace: warning: rank 3 is gone\n");
  set_log_level(LogLevel::kNormal);
}

TEST_CASE("a message has a limited length, its beginning and its end") {
  const std::string told =
      stderr_of([] { report_error("run.h5: " + std::string(1'000'000, 'x') + "; dump again"); });
  CHECK(told.size() < 2200);
  CHECK(told.starts_with("ttrace: run.h5: xxx"));
  CHECK(told.ends_with("xxx; dump again\n"));
  CHECK(told.find(" bytes ...] ") != std::string::npos);
}

}  // namespace
}  // namespace ttrace::base::log_test
