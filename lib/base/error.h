// The one exception type. A difference in the data is never an error; it is data.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "base/concat.h"

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

}  // namespace ttrace::base
