#include "base/strict_json.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/files.h"
#include "base/text.h"

namespace ttrace::base {
namespace {

using nlohmann::json;

constexpr std::size_t kDeepest = 64;

enum class Type { kNull, kBool, kUnsigned, kNegative, kFloat, kString, kArray, kObject };

// One value of a document. The manifest of a million tensors has fifteen million of them.
class Value {
 public:
  Value(Type type, std::uint32_t key, std::uint64_t content)
      : bits(content), type_and_key_(key << kTypeBits | static_cast<std::uint32_t>(type)) {}

  Type type() const { return static_cast<Type>(type_and_key_ & ((1U << kTypeBits) - 1)); }
  // The number of its key, for a member of an object.
  std::uint32_t key() const { return type_and_key_ >> kTypeBits; }
  bool is_number() const {
    return type() == Type::kUnsigned || type() == Type::kNegative || type() == Type::kFloat;
  }

  // The bits of a number or bool. Of a string: where it begins in the text of all strings.
  std::uint64_t bits;
  // The length of a string. For all others: the index of the first value behind it and its
  // children.
  std::uint32_t extent = 0;

 private:
  // A text of at most kLargestText has less than 2^28 different keys.
  static constexpr unsigned kTypeBits = 4;

  std::uint32_t type_and_key_;
};

const Value& value_of(const void* value) { return *static_cast<const Value*>(value); }

const char* type_name(const Value& value) {
  switch (value.type()) {
    case Type::kNull:
      return "null";
    case Type::kBool:
      return "boolean";
    case Type::kUnsigned:
    case Type::kNegative:
    case Type::kFloat:
      return "number";
    case Type::kString:
      return "string";
    case Type::kArray:
      return "array";
    case Type::kObject:
      return "object";
  }
  return "";
}

// JSON pointer escaping (RFC 6901), and no control characters in messages.
std::string escaped(std::string_view key) {
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

// The keys of all objects of a document, each once.
class Keys {
 public:
  std::uint32_t number_of(const std::string& key) {
    const auto number = static_cast<std::uint32_t>(texts_.size());
    const auto [known, fresh] = numbers_.try_emplace(key, number);
    if (fresh) texts_.push_back(&known->first);
    return known->second;
  }
  std::optional<std::uint32_t> find(std::string_view key) const {
    const auto known = numbers_.find(key);
    if (known == numbers_.end()) return std::nullopt;
    return known->second;
  }
  const std::string& text(std::uint32_t number) const { return *texts_[number]; }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view key) const {
      return std::hash<std::string_view>{}(key);
    }
  };

  std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> numbers_;
  std::vector<const std::string*> texts_;
};

}  // namespace

// All values in one list, in the order of the text: a list or object, then its children, each
// followed by its own.
struct JsonDocument::Parsed {
  std::vector<Value> values;
  std::string strings;  // one after the other
  Keys keys;

  const Value* behind(const Value& value) const {
    return value.type() == Type::kString ? &value + 1 : values.data() + value.extent;
  }
  std::string_view text_of(const Value& string) const {
    return std::string_view(strings).substr(string.bits, string.extent);
  }

  // Returns the first child for which `is_sought` is true, or null.
  template <typename Predicate>
  const Value* find_child(const Value& parent, Predicate is_sought) const {
    const Value* const end = behind(parent);
    for (const Value* child = &parent + 1; child != end; child = behind(*child)) {
      if (is_sought(*child)) return child;
    }
    return nullptr;
  }
  std::vector<const Value*> children_of(const Value& parent) const {
    std::vector<const Value*> children;
    find_child(parent, [&children](const Value& child) {
      children.push_back(&child);
      return false;
    });
    return children;
  }
  std::vector<const Value*> members_by_key(const Value& object) const {
    std::vector<const Value*> members = children_of(object);
    std::sort(members.begin(), members.end(), [this](const Value* a, const Value* b) {
      return keys.text(a->key()) < keys.text(b->key());
    });
    return members;
  }

  // Returns the JSON pointer from the root.
  std::string pointer_to(const Value& sought) const {
    std::string pointer;
    const Value* at = values.data();
    while (at != &sought) {
      std::size_t index = 0;
      const Value* const next = find_child(*at, [&](const Value& child) {
        if (&sought < behind(child)) return true;
        ++index;
        return false;
      });
      pointer += at->type() == Type::kArray ? concat("/", index)
                                            : concat("/", escaped(keys.text(next->key())));
      at = next;
    }
    return pointer;
  }

  // Returns the value as the library's tree, which writes it.
  json as_tree(const Value& value) const {
    switch (value.type()) {
      case Type::kNull:
        return nullptr;
      case Type::kBool:
        return value.bits != 0;
      case Type::kUnsigned:
        return value.bits;
      case Type::kNegative:
        return std::bit_cast<std::int64_t>(value.bits);
      case Type::kFloat:
        return std::bit_cast<double>(value.bits);
      case Type::kString:
        return text_of(value);
      case Type::kArray: {
        json list = json::array();
        for (const Value* item : children_of(value)) list.push_back(as_tree(*item));
        return list;
      }
      case Type::kObject: {
        json object = json::object();
        for (const Value* member : children_of(value)) {
          object.emplace(keys.text(member->key()), as_tree(*member));
        }
        return object;
      }
    }
    return nullptr;
  }
};

// Lists the values while the library parses. Refuses an object with two equal keys; the library's
// own builder would silently keep the last.
class JsonDocument::Builder final : public nlohmann::json_sax<json> {
 public:
  Builder(Parsed& parsed, const std::string& file) : parsed_(parsed), file_(file) {}

  bool null() override { return add(Type::kNull, 0); }
  bool boolean(bool value) override { return add(Type::kBool, value ? 1 : 0); }
  bool number_integer(number_integer_t value) override {
    return add(Type::kNegative, std::bit_cast<std::uint64_t>(value));
  }
  bool number_unsigned(number_unsigned_t value) override { return add(Type::kUnsigned, value); }
  bool number_float(number_float_t value, const string_t&) override {
    return add(Type::kFloat, std::bit_cast<std::uint64_t>(value));
  }
  bool string(string_t& value) override {
    add(Type::kString, parsed_.strings.size());
    parsed_.values.back().extent = static_cast<std::uint32_t>(value.size());
    parsed_.strings += value;
    return true;
  }
  bool binary(binary_t&) override { return false; }  // JSON has none

  bool start_object(std::size_t) override { return open(Type::kObject); }
  bool start_array(std::size_t) override { return open(Type::kArray); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& value) override {
    key_ = parsed_.keys.number_of(value);
    if (!open_[depth_ - 1].keys.add(key_)) {
      throw input_error(file_, ": the key \"", printable(value), "\" stands twice in one object");
    }
    return true;
  }

  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception& error) override {
    throw input_error(file_, ": not valid JSON: ", excerpt(error.what()));
  }

 private:
  // The keys of one object so far. Most objects have few, which are compared one by one.
  class KeySet {
   public:
    // Returns false if the key is known.
    bool add(std::uint32_t key) {
      if (few_.size() < kFew) {
        if (std::find(few_.begin(), few_.end(), key) != few_.end()) return false;
        few_.push_back(key);
        return true;
      }
      if (many_.empty()) many_.insert(few_.begin(), few_.end());
      return many_.insert(key).second;
    }
    void clear() {
      few_.clear();
      many_.clear();
    }

   private:
    static constexpr std::size_t kFew = 32;

    std::vector<std::uint32_t> few_;
    std::unordered_set<std::uint32_t> many_;
  };
  struct Level {
    std::size_t value = 0;  // the list or object that is open
    KeySet keys;
  };

  std::uint32_t count() const { return static_cast<std::uint32_t>(parsed_.values.size()); }
  bool add(Type type, std::uint64_t bits) {
    parsed_.values.emplace_back(type, key_, bits);
    parsed_.values.back().extent = count();
    return true;
  }
  bool open(Type type) {
    if (depth_ == kDeepest) {
      throw input_error(file_, ": JSON nested deeper than ", kDeepest, " levels");
    }
    // Closed levels stay in the list, so that the next one has memory for its keys.
    if (open_.size() == depth_) open_.emplace_back();
    Level& level = open_[depth_++];
    level.value = count();
    level.keys.clear();
    return add(type, 0);
  }
  bool close() {
    parsed_.values[open_[--depth_].value].extent = count();
    return true;
  }

  Parsed& parsed_;
  const std::string& file_;
  std::uint32_t key_ = 0;  // of the next value, if it is a member
  std::vector<Level> open_;
  std::size_t depth_ = 0;
};

JsonDocument::JsonDocument(std::string_view text, std::string file)
    : parsed_(std::make_unique<Parsed>()), file_(std::move(file)) {
  if (text.size() > kLargestText) {
    throw input_error(file_, ": has ", text.size(), " bytes, and at most ", kLargestText,
                      " (1 GiB) are read");
  }
  // The parser would take it for the end of the text.
  if (text.find('\0') != std::string_view::npos) {
    throw input_error(file_, ": not valid JSON: it has a NUL byte");
  }
  const auto values = std::count_if(text.begin(), text.end(),
                                    [](char c) { return c == ',' || c == '[' || c == '{'; });
  parsed_->values.reserve(static_cast<std::size_t>(values) + 1);
  Builder builder(*parsed_, file_);
  json::sax_parse(text, &builder);
}

JsonDocument::~JsonDocument() = default;

JsonCursor JsonDocument::root() const { return {parsed_->values.data(), this}; }

std::string JsonCursor::pointer() const { return document_->parsed_->pointer_to(value_of(value_)); }

std::string JsonCursor::text() const {
  return document_->parsed_->as_tree(value_of(value_)).dump();
}

std::string JsonCursor::place() const {
  const std::string where = pointer();
  return concat(document_->file(), ": ", where.empty() ? "the top level" : where);
}

bool JsonCursor::is_null() const { return value_of(value_).type() == Type::kNull; }
bool JsonCursor::is_string() const { return value_of(value_).type() == Type::kString; }
bool JsonCursor::is_object() const { return value_of(value_).type() == Type::kObject; }
bool JsonCursor::is_array() const { return value_of(value_).type() == Type::kArray; }

std::string_view JsonCursor::as_text() const {
  if (!is_string()) throw error("expected a string, found ", type_name(value_of(value_)));
  return document_->parsed_->text_of(value_of(value_));
}

std::string JsonCursor::as_string() const { return std::string(as_text()); }

std::uint64_t JsonCursor::as_count() const {
  const Value& value = value_of(value_);
  if (value.type() != Type::kUnsigned) {
    throw error("expected a whole number from 0 to 2^64-1, found ", excerpt(text()));
  }
  return value.bits;
}

double JsonCursor::as_number() const {
  const Value& value = value_of(value_);
  if (!value.is_number()) throw error("expected a number, found ", type_name(value));
  if (value.type() == Type::kFloat) return std::bit_cast<double>(value.bits);
  if (value.type() == Type::kUnsigned) return static_cast<double>(value.bits);
  return static_cast<double>(std::bit_cast<std::int64_t>(value.bits));
}

bool JsonCursor::as_bool() const {
  const Value& value = value_of(value_);
  if (value.type() != Type::kBool) {
    throw error("expected true or false, found ", type_name(value));
  }
  return value.bits != 0;
}

std::vector<JsonCursor> JsonCursor::items() const {
  const Value& value = value_of(value_);
  if (!is_array()) throw error("expected a list, found ", type_name(value));
  std::vector<JsonCursor> found;
  document_->parsed_->find_child(value, [&](const Value& item) {
    found.emplace_back(&item, document_);
    return false;
  });
  return found;
}

std::vector<std::uint64_t> JsonCursor::as_counts() const {
  const Value& value = value_of(value_);
  if (!is_array()) throw error("expected a list, found ", type_name(value));
  std::vector<std::uint64_t> counts;
  document_->parsed_->find_child(value, [&](const Value& item) {
    counts.push_back(JsonCursor(&item, document_).as_count());
    return false;
  });
  return counts;
}

std::vector<std::string> JsonCursor::as_strings() const {
  std::vector<std::string> strings;
  for (const JsonCursor& item : items()) strings.push_back(item.as_string());
  return strings;
}

std::vector<std::pair<std::string, JsonCursor>> JsonCursor::members() const {
  const Value& value = value_of(value_);
  if (!is_object()) throw error("expected an object, found ", type_name(value));
  std::vector<std::pair<std::string, JsonCursor>> found;
  for (const Value* member : document_->parsed_->members_by_key(value)) {
    found.emplace_back(document_->parsed_->keys.text(member->key()), JsonCursor(member, document_));
  }
  return found;
}

void JsonCursor::allow_keys(std::initializer_list<std::string_view> keys) const {
  const Value& value = value_of(value_);
  if (!is_object()) throw error("expected an object, found ", type_name(value));
  const JsonDocument::Parsed& parsed = *document_->parsed_;
  const auto is_unknown = [&](const Value& member) {
    return std::find(keys.begin(), keys.end(), parsed.keys.text(member.key())) == keys.end();
  };
  if (parsed.find_child(value, is_unknown) == nullptr) return;
  for (const Value* member : parsed.members_by_key(value)) {
    if (!is_unknown(*member)) continue;
    throw JsonCursor(member, document_).error("unknown key, expected one of ", [&keys] {
      std::string list;
      for (const std::string_view known : keys) list += concat(list.empty() ? "" : ", ", known);
      return list;
    }());
  }
}

std::optional<JsonCursor> JsonCursor::find(std::string_view key) const {
  const Value& value = value_of(value_);
  if (!is_object()) throw error("expected an object, found ", type_name(value));
  const auto number = document_->parsed_->keys.find(key);
  if (!number) return std::nullopt;
  const Value* const found = document_->parsed_->find_child(
      value, [&number](const Value& member) { return member.key() == *number; });
  if (found == nullptr) return std::nullopt;
  return JsonCursor(found, document_);
}

JsonCursor JsonCursor::require(std::string_view key) const {
  auto found = find(key);
  if (!found) throw error("the key \"", key, "\" is missing");
  return *found;
}

std::string json_string(std::string_view text) { return json(text).dump(); }

}  // namespace ttrace::base
