// The values of a JSON text in one list, in the order of the text: 16 bytes each. The manifest of a
// million tensors has fifteen million of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ttrace::base {

enum class JsonType { kNull, kBool, kUnsigned, kNegative, kFloat, kString, kArray, kObject };

class JsonValue {
 public:
  JsonValue(JsonType type, std::uint32_t key, std::uint64_t content)
      : bits(content), type_and_key_(key << kTypeBits | static_cast<std::uint32_t>(type)) {}

  JsonType type() const { return static_cast<JsonType>(type_and_key_ & ((1U << kTypeBits) - 1)); }
  // "array", as messages call it.
  const char* type_name() const;
  // The number of its key, for a member of an object.
  std::uint32_t key() const { return type_and_key_ >> kTypeBits; }
  bool is_number() const {
    return type() == JsonType::kUnsigned || type() == JsonType::kNegative ||
           type() == JsonType::kFloat;
  }

  // The bits of a number or bool. Of a string: where it begins in the text of all strings.
  std::uint64_t bits;
  // The length of a string. For all others: the index of the first value behind it and its
  // children.
  std::uint32_t extent = 0;

 private:
  // A text of at most kLargestText (files.h) has less than 2^28 different keys.
  static constexpr unsigned kTypeBits = 4;

  std::uint32_t type_and_key_;
};

// The keys of all objects of a document, each once.
class JsonKeys {
 public:
  std::uint32_t number_of(std::string_view key);
  std::optional<std::uint32_t> find(std::string_view key) const;
  std::string_view text(std::uint32_t number) const;
  // What the keys take beside their texts.
  std::size_t bytes() const { return (ends_.capacity() + slots_.size()) * sizeof(std::uint32_t); }

 private:
  // The slot of the key, or the free one where it belongs. There must be a free one.
  std::size_t slot_of(std::string_view key) const;
  void make_room();

  std::string texts_;                 // one after the other
  std::vector<std::uint32_t> ends_;   // in texts_, by number
  std::vector<std::uint32_t> slots_;  // numbers + 1, or 0; a power of two of them
};

struct JsonValues {
  std::vector<JsonValue> values;  // a list or object, then its children, each followed by its own
  std::string strings;            // one after the other
  JsonKeys keys;
  std::string place;  // the JSON pointer of the first value, where that is no whole document

  const JsonValue* behind(const JsonValue& value) const {
    return value.type() == JsonType::kString ? &value + 1 : values.data() + value.extent;
  }
  std::string_view text_of(const JsonValue& string) const {
    return std::string_view(strings).substr(string.bits, string.extent);
  }
  std::size_t bytes() const { return values.size() * sizeof(JsonValue) + keys.bytes(); }

  // Returns the first child for which `is_sought` is true, or null.
  template <typename Predicate>
  const JsonValue* find_child(const JsonValue& parent, Predicate is_sought) const {
    const JsonValue* const end = behind(parent);
    for (const JsonValue* child = &parent + 1; child != end; child = behind(*child)) {
      if (is_sought(*child)) return child;
    }
    return nullptr;
  }
  std::vector<const JsonValue*> children_of(const JsonValue& parent) const;
  std::vector<const JsonValue*> members_by_key(const JsonValue& object) const;
  // Returns the JSON pointer, and searches for it from the first value.
  std::string pointer_to(const JsonValue& sought) const;
};

// JSON pointer escaping (RFC 6901), and no control characters in messages.
std::string escaped_for_pointer(std::string_view key);

}  // namespace ttrace::base
