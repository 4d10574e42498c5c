#include "base/json_values.h"

#include <algorithm>
#include <functional>

#include "base/text.h"

namespace ttrace::base {

const char* JsonValue::type_name() const {
  switch (type()) {
    case JsonType::kNull:
      return "null";
    case JsonType::kBool:
      return "boolean";
    case JsonType::kUnsigned:
    case JsonType::kNegative:
    case JsonType::kFloat:
      return "number";
    case JsonType::kString:
      return "string";
    case JsonType::kArray:
      return "array";
    case JsonType::kObject:
      return "object";
  }
  return "";
}

std::string escaped_for_pointer(std::string_view key) {
  std::string out;
  for (const char c : key) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return excerpt(out);
}

std::string_view JsonKeys::text(std::uint32_t number) const {
  const std::size_t begin = number == 0 ? 0 : ends_[number - 1];
  return std::string_view(texts_).substr(begin, ends_[number] - begin);
}

std::size_t JsonKeys::slot_of(std::string_view key) const {
  const std::size_t last = slots_.size() - 1;
  std::size_t slot = std::hash<std::string_view>{}(key)&last;
  while (slots_[slot] != 0 && text(slots_[slot] - 1) != key) slot = (slot + 1) & last;
  return slot;
}

void JsonKeys::make_room() {
  constexpr std::size_t kFewest = 64;
  slots_.assign(std::max(kFewest, 2 * slots_.size()), 0);
  for (std::uint32_t number = 0; number < ends_.size(); ++number) {
    slots_[slot_of(text(number))] = number + 1;
  }
}

std::uint32_t JsonKeys::number_of(std::string_view key) {
  if (2 * ends_.size() >= slots_.size()) make_room();
  std::uint32_t& number = slots_[slot_of(key)];
  if (number == 0) {
    texts_ += key;
    ends_.push_back(static_cast<std::uint32_t>(texts_.size()));
    number = static_cast<std::uint32_t>(ends_.size());
  }
  return number - 1;
}

std::optional<std::uint32_t> JsonKeys::find(std::string_view key) const {
  const std::uint32_t number = slots_.empty() ? 0 : slots_[slot_of(key)];
  if (number == 0) return std::nullopt;
  return number - 1;
}

std::vector<const JsonValue*> JsonValues::children_of(const JsonValue& parent) const {
  std::vector<const JsonValue*> children;
  find_child(parent, [&children](const JsonValue& child) {
    children.push_back(&child);
    return false;
  });
  return children;
}

std::vector<const JsonValue*> JsonValues::members_by_key(const JsonValue& object) const {
  std::vector<const JsonValue*> members = children_of(object);
  std::sort(members.begin(), members.end(), [this](const JsonValue* a, const JsonValue* b) {
    return keys.text(a->key()) < keys.text(b->key());
  });
  return members;
}

std::string JsonValues::pointer_to(const JsonValue& sought) const {
  std::string pointer = place;
  const JsonValue* at = values.data();
  while (at != &sought) {
    std::size_t index = 0;
    const JsonValue* const next = find_child(*at, [&](const JsonValue& child) {
      if (&sought < behind(child)) return true;
      ++index;
      return false;
    });
    pointer += at->type() == JsonType::kArray
                   ? concat("/", index)
                   : concat("/", escaped_for_pointer(keys.text(next->key())));
    at = next;
  }
  return pointer;
}

}  // namespace ttrace::base
