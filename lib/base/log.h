// What goes to stderr: warnings, log lines and the progress of long work. Answers go to stdout and
// never pass through here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ttrace::base {

enum class LogLevel { kQuiet, kNormal, kVerbose };

void set_log_level(LogLevel level);
bool is_quiet();

// One line on stderr: "ttrace: warning: ...". A warning says what happened, why it matters and what
// helps. Silent under kQuiet.
void warn(std::string_view message);

// The same, always: for the reason of an exit code.
void warn_even_if_quiet(std::string_view message);

// One line on stderr under kVerbose: what is done.
void inform(std::string_view message);

// One line on stderr, always: "ttrace: ...".
void report_error(std::string_view message);

// Called from any thread; implementations must be cheap.
class Progress {
 public:
  virtual ~Progress() = default;

  // So many more bytes are to be read.
  virtual void expect(std::uint64_t bytes) = 0;
  // So many of them are done.
  virtual void advance(std::uint64_t bytes) = 0;
  // The relative error of one tensor; the largest so far is of interest.
  virtual void measured(const std::string& tensor, double relative_error) = 0;
};

}  // namespace ttrace::base
