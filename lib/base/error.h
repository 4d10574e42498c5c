// The exceptions of ttrace. A difference in the data is never an error; it is data.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace ttrace::base {

enum class ErrorKind {
  kUsage,     // the command line asks for something that does not exist
  kInput,     // a file is missing, malformed or contradicts itself, or cannot be written
  kInternal,  // a defect of ttrace
};

class InputError;

// Carries one sentence: the file, the path inside it, the reason, and what the user can do.
class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}
  // Forbids slicing: a handler of InputError would not catch the copy.
  Error(const InputError&) = delete;

  const char* what() const noexcept override { return message_.c_str(); }
  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
  std::string message_;
};

// The errors that a caller may handle and go on: one file, tensor or rule is unusable, and the work
// on the others continues.
class InputError : public Error {
 public:
  explicit InputError(std::string message) : Error(ErrorKind::kInput, std::move(message)) {}

  // Puts "<context>: " before the message, e.g. the file a lower layer did not know.
  InputError in(std::string_view context) const {
    return InputError(concat(context, ": ", what()));
  }
};

template <typename... Parts>
Error usage_error(const Parts&... parts) {
  return {ErrorKind::kUsage, concat(parts...)};
}

template <typename... Parts>
InputError input_error(const Parts&... parts) {
  return InputError(concat(parts...));
}

// For an output that cannot be written. Not an InputError, because a caller must not go on without
// its output.
template <typename... Parts>
Error output_error(const Parts&... parts) {
  return {ErrorKind::kInput, concat(parts...)};
}

template <typename... Parts>
Error internal_error(const Parts&... parts) {
  return {ErrorKind::kInternal, concat("defect in ttrace: ", parts..., "; please report it")};
}

// Explain the errno of a failed system call, with advice where there is any, for example
// "permission denied: this user may not read it; change its mode ...". The first is for a failed
// open or read, the second for a failed open, write or rename.
std::string reading_problem(int error);
std::string writing_problem(int error);

// The message of a process whose allocation failed.
std::string describe_out_of_memory();

}  // namespace ttrace::base
