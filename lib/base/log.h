// Warnings and progress go to stderr through here; answers go to stdout and never pass through.
// Lines have a limited length (base/shortened.h).
#pragma once

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

}  // namespace ttrace::base
