// The one exception type. A difference in the data is never an error; it is data.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace ttrace::base {

enum class ErrorKind {
  kUsage,     // the command line asks for something that does not exist
  kInput,     // a file is missing, malformed or contradicts itself
  kInternal,  // a defect of ttrace
};

// Carries one sentence that names the file, the path inside it, the reason and the way out.
class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}

  const char* what() const noexcept override { return message_.c_str(); }
  ErrorKind kind() const noexcept { return kind_; }

  // Puts "<context>: " before the message, e.g. the file a lower layer did not know.
  Error in(std::string_view context) const { return {kind_, concat(context, ": ", message_)}; }

 private:
  ErrorKind kind_;
  std::string message_;
};

template <typename... Parts>
Error usage_error(const Parts&... parts) {
  return {ErrorKind::kUsage, concat(parts...)};
}

template <typename... Parts>
Error input_error(const Parts&... parts) {
  return {ErrorKind::kInput, concat(parts...)};
}

template <typename... Parts>
Error internal_error(const Parts&... parts) {
  return {ErrorKind::kInternal, concat("defect in ttrace: ", parts..., "; please report it")};
}

// What the system refused, in words that name the way out.

// The reason of a failed open or read, and of a failed open, write or rename, by its errno:
// "permission denied: this user may not read it". No way out is known for most: the system's words.
std::string reading_problem(int error);
std::string writing_problem(int error);

// For a process that got no memory.
std::string describe_out_of_memory();

}  // namespace ttrace::base
