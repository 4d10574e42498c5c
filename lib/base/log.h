// Output to stderr: warnings, log lines and the progress of long work. Results go to stdout and do
// not pass through here. Every message is cut to kLongestMessage (base/text.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ttrace::base {

enum class LogLevel { kQuiet, kNormal, kVerbose };

void set_log_level(LogLevel level);
bool is_quiet();

// Prints "ttrace: warning: ...", except under kQuiet. A warning says what happened, why it matters
// and what helps.
void warn(std::string_view message);

// As warn(), but under kQuiet, too. For the reason of an exit code.
void warn_even_if_quiet(std::string_view message);

// Prints "ttrace: ...", except under kQuiet: a stage of work that takes minutes begins or has
// ended.
void announce(std::string_view message);

// Prints "ttrace: ..." under kVerbose: what the program is doing.
void inform(std::string_view message);

// Prints "ttrace: ..." under any log level.
void report_error(std::string_view message);

// Receives the progress of a long-running stage. Called from any thread, so implementations must be
// fast.
class Progress {
 public:
  virtual ~Progress() = default;

  // Announces that `bytes` more bytes will be read.
  virtual void expect(std::uint64_t bytes) = 0;
  // Reports that `bytes` more of them are done.
  virtual void advance(std::uint64_t bytes) = 0;
  // Reports the relative error of one tensor.
  virtual void measured(const std::string& tensor, double relative_error) = 0;
};

}  // namespace ttrace::base
