#include "base/strict_json.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/files.h"
#include "base/json_values.h"
#include "base/text.h"

namespace ttrace::base {
namespace {

using nlohmann::json;

constexpr std::size_t kDeepest = 64;

std::atomic<std::uint64_t> memory{std::uint64_t{2} << 30};

const JsonValue& value_of(const void* value) { return *static_cast<const JsonValue*>(value); }

// Returns the value as the library's tree, which writes it.
json tree_of(const JsonValues& document, const JsonValue& value) {
  switch (value.type()) {
    case JsonType::kNull:
      return nullptr;
    case JsonType::kBool:
      return value.bits != 0;
    case JsonType::kUnsigned:
      return value.bits;
    case JsonType::kNegative:
      return std::bit_cast<std::int64_t>(value.bits);
    case JsonType::kFloat:
      return std::bit_cast<double>(value.bits);
    case JsonType::kString:
      return document.text_of(value);
    case JsonType::kArray: {
      json list = json::array();
      for (const JsonValue* item : document.children_of(value)) {
        list.push_back(tree_of(document, *item));
      }
      return list;
    }
    case JsonType::kObject: {
      json object = json::object();
      for (const JsonValue* member : document.children_of(value)) {
        object.emplace(document.keys.text(member->key()), tree_of(document, *member));
      }
      return object;
    }
  }
  return nullptr;
}

// Called for a member of the outermost object, whose values it may keep no longer than the call.
using Visit = std::function<void(const std::string& key, const JsonValue& value)>;

// Lists the values while the library parses. Refuses an object with two equal keys; the library's
// own builder would silently keep the last.
class Builder final : public nlohmann::json_sax<json> {
 public:
  // `most`: bytes that the values may take. With `visit`, keeps the values of one member at a time.
  Builder(JsonValues& parsed, const std::string& file, std::uint64_t most, const Visit* visit)
      : parsed_(parsed), file_(file), most_(most), visit_(visit) {}

  bool null() override { return add_whole(JsonType::kNull, 0); }
  bool boolean(bool value) override { return add_whole(JsonType::kBool, value ? 1 : 0); }
  bool number_integer(number_integer_t value) override {
    return add_whole(JsonType::kNegative, std::bit_cast<std::uint64_t>(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return add_whole(JsonType::kUnsigned, value);
  }
  bool number_float(number_float_t value, const string_t&) override {
    return add_whole(JsonType::kFloat, std::bit_cast<std::uint64_t>(value));
  }
  bool string(string_t& value) override {
    add(JsonType::kString, parsed_.strings.size());
    parsed_.values.back().extent = static_cast<std::uint32_t>(value.size());
    parsed_.strings += value;
    return visit_whole();
  }
  bool binary(binary_t&) override { return false; }  // JSON has none

  bool start_object(std::size_t) override { return open(JsonType::kObject); }
  bool start_array(std::size_t) override { return open(JsonType::kArray); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& value) override {
    if (visits_members()) {
      member_ = value;
      parsed_.values.clear();
      parsed_.strings.clear();
      parsed_.place = concat("/", escaped_for_pointer(value));
      return true;
    }
    key_ = parsed_.keys.number_of(value);
    Level& level = open_[depth_ - 1];
    if (level.first_keys.size() == kFew) {
      level.has_more = true;
    } else if (std::find(level.first_keys.begin(), level.first_keys.end(), key_) !=
               level.first_keys.end()) {
      refuse_twice(value);
    } else {
      level.first_keys.push_back(key_);
    }
    return true;
  }

  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception& error) override {
    throw input_error(file_, ": not valid JSON: ", excerpt(error.what()));
  }

 private:
  // Keys of one object that are compared one by one. Few objects have more, which are looked at
  // when they end.
  static constexpr std::size_t kFew = 32;
  struct Level {
    std::size_t value = 0;  // the list or object that is open
    std::vector<std::uint32_t> first_keys;
    bool has_more = false;
  };

  [[noreturn]] void refuse_twice(std::string_view key) const {
    throw input_error(file_, ": the key \"", printable(key), "\" stands twice in one object");
  }
  bool visits_members() const { return visit_ != nullptr && depth_ == 1; }
  std::uint32_t count() const { return static_cast<std::uint32_t>(parsed_.values.size()); }

  void add(JsonType type, std::uint64_t bits) {
    parsed_.values.emplace_back(type, key_, bits);
    parsed_.values.back().extent = count();
    if (visit_ != nullptr && depth_ == 0) {
      throw input_error(file_, ": the top level: expected an object, found ",
                        parsed_.values.back().type_name());
    }
    if (parsed_.bytes() > most_) {
      throw input_error(file_, ": its values take more than ", human_bytes(most_),
                        " of memory; if the file is what it should be, give a larger --memory");
    }
  }
  bool visit_whole() {
    if (visits_members()) (*visit_)(member_, parsed_.values.front());
    return true;
  }
  bool add_whole(JsonType type, std::uint64_t bits) {
    add(type, bits);
    return visit_whole();
  }
  bool open(JsonType type) {
    if (depth_ == kDeepest) {
      throw input_error(file_, ": JSON nested deeper than ", kDeepest, " levels");
    }
    const bool is_outermost = visit_ != nullptr && depth_ == 0 && type == JsonType::kObject;
    const std::size_t value = count();
    if (!is_outermost) add(type, 0);
    // Closed levels stay in the list, so that the next one has memory for its keys.
    if (open_.size() == depth_) open_.emplace_back();
    Level& level = open_[depth_++];
    level.value = value;
    level.first_keys.clear();
    level.has_more = false;
    return true;
  }
  bool close() {
    const Level& level = open_[--depth_];
    if (visit_ != nullptr && depth_ == 0) return true;
    parsed_.values[level.value].extent = count();
    if (level.has_more) require_distinct_keys(parsed_.values[level.value]);
    return visit_whole();
  }
  void require_distinct_keys(const JsonValue& object) const {
    std::vector<std::uint32_t> keys;
    parsed_.find_child(object, [&keys](const JsonValue& member) {
      keys.push_back(member.key());
      return false;
    });
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice != keys.end()) refuse_twice(parsed_.keys.text(*twice));
  }

  JsonValues& parsed_;
  const std::string& file_;
  std::uint64_t most_;
  const Visit* visit_;
  std::string member_;     // the key of the one that is visited next
  std::uint32_t key_ = 0;  // of the next value, if it is a member
  std::vector<Level> open_;
  std::size_t depth_ = 0;
};

// The parser would take it for the end of the text.
void require_no_nul(std::string_view text, const std::string& file) {
  if (text.find('\0') == std::string_view::npos) return;
  throw input_error(file, ": not valid JSON: it has a NUL byte");
}

// The characters of a text that comes in pieces.
class Characters {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Characters() = default;  // behind the last one
  Characters(const JsonPieces& next, const std::string& file) : next_(&next), file_(&file) {
    take();
  }

  reference operator*() const { return piece_.front(); }
  Characters& operator++() {
    piece_.remove_prefix(1);
    if (piece_.empty()) take();
    return *this;
  }
  void operator++(int) { ++*this; }
  friend bool operator==(const Characters& a, const Characters& b) {
    return a.piece_.data() == b.piece_.data();
  }

 private:
  void take() {
    piece_ = (*next_)();
    require_no_nul(piece_, *file_);
    if (piece_.empty()) piece_ = {};
  }

  const JsonPieces* next_ = nullptr;
  const std::string* file_ = nullptr;
  std::string_view piece_;
};

}  // namespace

void limit_json_memory(std::uint64_t bytes) { memory = bytes; }
std::uint64_t json_memory() { return memory; }

std::uint64_t most_json_values(std::string_view text) {
  return 1 + static_cast<std::uint64_t>(std::count_if(text.begin(), text.end(), [](char c) {
           return c == ',' || c == '[' || c == '{';
         }));
}

JsonDocument::JsonDocument(std::string_view text, std::string file)
    : parsed_(std::make_unique<JsonValues>()), file_(std::move(file)) {
  if (text.size() > kLargestText) {
    throw input_error(file_, ": has ", text.size(), " bytes, and at most ", kLargestText,
                      " (1 GiB) are read");
  }
  require_no_nul(text, file_);
  const std::uint64_t most = std::max<std::uint64_t>(memory, 2 * text.size());
  parsed_->values.reserve(std::min(most_json_values(text), most / sizeof(JsonValue) + 2));
  Builder builder(*parsed_, file_, most, nullptr);
  json::sax_parse(text, &builder);
}

void for_each_json_member(
    const JsonPieces& next, const std::string& file,
    const std::function<void(const std::string& key, const JsonCursor& value)>& visit) {
  const JsonDocument document("null", file);
  const Visit visit_value = [&](const std::string& key, const JsonValue& value) {
    visit(key, JsonCursor(&value, &document));
  };
  // Readers list the members of a value, which takes more than the value.
  constexpr std::uint64_t kMost = std::uint64_t{64} << 20;
  const std::uint64_t most = std::min<std::uint64_t>(memory / 8, kMost);
  Builder builder(*document.parsed_, document.file(), most, &visit_value);
  json::sax_parse(Characters(next, file), Characters(), &builder);
}

JsonDocument::~JsonDocument() = default;

JsonCursor JsonDocument::root() const { return {parsed_->values.data(), this}; }

std::string JsonCursor::pointer() const { return document_->parsed_->pointer_to(value_of(value_)); }

std::string JsonCursor::text() const {
  return tree_of(*document_->parsed_, value_of(value_)).dump();
}

std::string JsonCursor::place() const {
  const std::string where = pointer();
  return concat(document_->file(), ": ", where.empty() ? "the top level" : where);
}

bool JsonCursor::is_null() const { return value_of(value_).type() == JsonType::kNull; }
bool JsonCursor::is_string() const { return value_of(value_).type() == JsonType::kString; }
bool JsonCursor::is_object() const { return value_of(value_).type() == JsonType::kObject; }
bool JsonCursor::is_array() const { return value_of(value_).type() == JsonType::kArray; }

std::string_view JsonCursor::as_text() const {
  if (!is_string()) throw error("expected a string, found ", value_of(value_).type_name());
  return document_->parsed_->text_of(value_of(value_));
}

std::string JsonCursor::as_string() const { return std::string(as_text()); }

std::uint64_t JsonCursor::as_count() const {
  const JsonValue& value = value_of(value_);
  if (value.type() != JsonType::kUnsigned) {
    throw error("expected a whole number from 0 to 2^64-1, found ", excerpt(text()));
  }
  return value.bits;
}

double JsonCursor::as_number() const {
  const JsonValue& value = value_of(value_);
  if (!value.is_number()) throw error("expected a number, found ", value.type_name());
  if (value.type() == JsonType::kFloat) return std::bit_cast<double>(value.bits);
  if (value.type() == JsonType::kUnsigned) return static_cast<double>(value.bits);
  return static_cast<double>(std::bit_cast<std::int64_t>(value.bits));
}

bool JsonCursor::as_bool() const {
  const JsonValue& value = value_of(value_);
  if (value.type() != JsonType::kBool) {
    throw error("expected true or false, found ", value.type_name());
  }
  return value.bits != 0;
}

std::vector<JsonCursor> JsonCursor::items() const {
  const JsonValue& value = value_of(value_);
  if (!is_array()) throw error("expected a list, found ", value.type_name());
  std::vector<JsonCursor> found;
  document_->parsed_->find_child(value, [&](const JsonValue& item) {
    found.emplace_back(&item, document_);
    return false;
  });
  return found;
}

std::vector<std::uint64_t> JsonCursor::as_counts() const {
  const JsonValue& value = value_of(value_);
  if (!is_array()) throw error("expected a list, found ", value.type_name());
  std::vector<std::uint64_t> counts;
  document_->parsed_->find_child(value, [&](const JsonValue& item) {
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
  const JsonValue& value = value_of(value_);
  if (!is_object()) throw error("expected an object, found ", value.type_name());
  std::vector<std::pair<std::string, JsonCursor>> found;
  for (const JsonValue* member : document_->parsed_->members_by_key(value)) {
    found.emplace_back(document_->parsed_->keys.text(member->key()), JsonCursor(member, document_));
  }
  return found;
}

void JsonCursor::allow_keys(std::initializer_list<std::string_view> keys) const {
  const JsonValue& value = value_of(value_);
  if (!is_object()) throw error("expected an object, found ", value.type_name());
  const JsonValues& parsed = *document_->parsed_;
  const auto is_unknown = [&](const JsonValue& member) {
    return std::find(keys.begin(), keys.end(), parsed.keys.text(member.key())) == keys.end();
  };
  if (parsed.find_child(value, is_unknown) == nullptr) return;
  for (const JsonValue* member : parsed.members_by_key(value)) {
    if (!is_unknown(*member)) continue;
    throw JsonCursor(member, document_).error("unknown key, expected one of ", [&keys] {
      std::string list;
      for (const std::string_view known : keys) list += concat(list.empty() ? "" : ", ", known);
      return list;
    }());
  }
}

std::optional<JsonCursor> JsonCursor::find(std::string_view key) const {
  const JsonValue& value = value_of(value_);
  if (!is_object()) throw error("expected an object, found ", value.type_name());
  const auto number = document_->parsed_->keys.find(key);
  if (!number) return std::nullopt;
  const JsonValue* const found = document_->parsed_->find_child(
      value, [&number](const JsonValue& member) { return member.key() == *number; });
  if (found == nullptr) return std::nullopt;
  return JsonCursor(found, document_);
}

JsonCursor JsonCursor::require(std::string_view key) const {
  auto found = find(key);
  if (!found) throw error("the key \"", key, "\" is missing");
  return *found;
}

void JsonCursor::require_format(std::string_view expected, std::string_view remedy) const {
  const std::string_view found = as_text();
  if (found == expected) return;
  const std::size_t name = expected.rfind('/');
  const bool is_earlier = found.size() == expected.size() && found < expected &&
                          found.substr(0, name) == expected.substr(0, name);
  throw error("this is \"", excerpt(found), "\"",
              is_earlier ? ", of a version that was never released" : "",
              ", but this ttrace reads \"", expected, "\"", remedy.empty() ? "" : "; ", remedy);
}

std::string json_string(std::string_view text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace ttrace::base
