#include "trace/placements/kind.h"

#include "base/strict_json.h"

namespace ttrace::trace {

bool has_member(const base::JsonCursor& value, std::string_view key) {
  return value.is_object() && value.find(key).has_value();
}

std::string json_list(std::span<const std::uint64_t> numbers) {
  std::string text = "[";
  for (const std::uint64_t number : numbers) {
    text += base::concat(text.size() > 1 ? "," : "", number);
  }
  return text + "]";
}

std::string describe_list(std::span<const std::uint64_t> numbers) {
  return describe_list(numbers, [](std::uint64_t number) { return std::to_string(number); });
}

void require_one_each(std::size_t listed, const char* what, std::uint64_t count) {
  if (listed != count) throw base::input_error(listed, " ", what, " for ", count, " coordinates");
}

}  // namespace ttrace::trace
