// A message for people as a template with named, typed values, as in structured logging: the code
// states what happened in numbers and names, and every format renders it in its own way.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ttrace::base {

struct Message {
  using Value = std::variant<std::uint64_t, double, std::string>;

  // A literal with the values' names in braces, in three forms:
  //   {count}             the value
  //   {count:tensor}      a count with its noun: "1 tensor", "3 tensors"
  //   {count?is|are}      the first word where the count is 1, else the second
  // Text in square brackets is left out if a value in it is missing or an empty text.
  std::string_view text;
  std::vector<std::pair<std::string_view, Value>> values;  // by name, in the order of the text
};

// Returns the message as text: counts in digits, numbers with three significant digits, and texts,
// which may come from files, made printable. Throws an internal error if the template names a value
// that is not there.
std::string render(const Message& message);

// The same, but nothing if a value outside of brackets is missing or an empty text.
std::optional<std::string> rendered_if_complete(const Message& message);

}  // namespace ttrace::base
