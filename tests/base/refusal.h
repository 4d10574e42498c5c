// Checks that something is refused, and that the message says why.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "support/catch.h"

namespace ttrace::test {

template <typename Action>
std::optional<base::Error> error_of(Action action) {
  try {
    action();
  } catch (const base::Error& error) {
    return error;
  }
  return std::nullopt;
}

// The message of the error that `action` throws, or empty if it does not.
template <typename Action>
std::string refusal_of(Action action) {
  const std::optional<base::Error> error = error_of(action);
  return error ? error->what() : "";
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// `action` must throw an error of `kind` whose message has every one of `parts`.
template <typename Action>
void check_error(base::ErrorKind kind, Action action,
                 std::initializer_list<std::string_view> parts) {
  const std::optional<base::Error> error = error_of(action);
  CHECK(error.has_value());
  if (!error) return;
  const std::string message = error->what();
  CAPTURE(message);
  CHECK(error->kind() == kind);
  for (const std::string_view part : parts) {
    CAPTURE(part);
    CHECK(contains(message, part));
  }
}

// The same for what a file's contents cause.
template <typename Action>
void check_refused(Action action, std::initializer_list<std::string_view> parts) {
  check_error(base::ErrorKind::kInput, action, parts);
}

// The same for a caller's mistake.
template <typename Action>
void check_defect(Action action, std::initializer_list<std::string_view> parts = {}) {
  check_error(base::ErrorKind::kInternal, action, parts);
}

}  // namespace ttrace::test
