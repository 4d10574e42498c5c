#include "base/strict_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/text.h"

namespace ttrace::base {
namespace {

using nlohmann::json;

constexpr std::size_t kDeepest = 64;

const json& value_of(const void* value) { return *static_cast<const json*>(value); }

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
  return printable(out);
}

// The JSON pointer from `from` to `sought`, or nothing if `sought` is not in it.
std::optional<std::string> pointer_to(const json& sought, const json& from) {
  if (&sought == &from) return "";
  if (from.is_array()) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (const auto rest = pointer_to(sought, from[i])) return concat("/", i, *rest);
    }
  } else if (from.is_object()) {
    for (const auto& [key, value] : from.items()) {
      if (const auto rest = pointer_to(sought, value)) return concat("/", escaped(key), *rest);
    }
  }
  return std::nullopt;
}

// Builds the document while it is parsed. The library's own builder silently keeps the last of two
// equal keys, and its callback interface, which could reject them, rescans every array at its end.
class Builder : public nlohmann::json_sax<json> {
 public:
  explicit Builder(const std::string& file) : file_(file) {}

  json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& value) override { return add(std::move(value)); }

  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& value) override {
    const auto [place, fresh] = open_.back()->emplace(value, nullptr);
    if (!fresh) {
      throw input_error(file_, ": the key \"", printable(value), "\" stands twice in one object");
    }
    member_ = &*place;
    return true;
  }

  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception& error) override {
    throw input_error(file_, ": not valid JSON: ", printable(error.what()));
  }

 private:
  json& place(json value) {
    if (open_.empty()) return root_ = std::move(value);
    if (open_.back()->is_object()) return *member_ = std::move(value);
    open_.back()->push_back(std::move(value));
    return open_.back()->back();
  }
  bool add(json value) {
    place(std::move(value));
    return true;
  }
  bool open(json empty) {
    // Pointers to open elements stay valid: nothing is added to their parents until they are
    // closed.
    open_.push_back(&place(std::move(empty)));
    if (open_.size() > kDeepest) {
      throw input_error(file_, ": JSON nested deeper than ", kDeepest, " levels");
    }
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string& file_;
  json root_;
  json* member_ = nullptr;  // where the next value of the innermost object goes
  std::vector<json*> open_;
};

}  // namespace

struct JsonDocument::Parsed {
  json value;
};

JsonDocument::JsonDocument(std::string_view text, std::string file)
    : parsed_(std::make_unique<Parsed>()), file_(std::move(file)) {
  // The parser would take it for the end of the text.
  if (text.find('\0') != std::string_view::npos) {
    throw input_error(file_, ": not valid JSON: it has a NUL byte");
  }
  Builder builder(file_);
  json::sax_parse(text, &builder);
  parsed_->value = builder.take();
}

JsonDocument::~JsonDocument() = default;

JsonCursor JsonDocument::root() const { return {&parsed_->value, this}; }

std::string JsonDocument::pointer_of(const void* value) const {
  return pointer_to(value_of(value), parsed_->value).value_or("");
}

std::string JsonCursor::pointer() const { return document_->pointer_of(value_); }

std::string JsonCursor::text() const { return value_of(value_).dump(); }

std::string JsonCursor::place() const {
  const std::string where = pointer();
  return concat(document_->file(), ": ", where.empty() ? "the top level" : where);
}

bool JsonCursor::is_null() const { return value_of(value_).is_null(); }
bool JsonCursor::is_string() const { return value_of(value_).is_string(); }
bool JsonCursor::is_object() const { return value_of(value_).is_object(); }
bool JsonCursor::is_array() const { return value_of(value_).is_array(); }

std::string JsonCursor::as_string() const {
  if (!is_string()) throw error("expected a string, found ", value_of(value_).type_name());
  return value_of(value_).get<std::string>();
}

std::uint64_t JsonCursor::as_count() const {
  const json& value = value_of(value_);
  if (!value.is_number_unsigned()) {
    throw error("expected a whole number from 0 to 2^64-1, found ", printable(value.dump()));
  }
  return value.get<std::uint64_t>();
}

double JsonCursor::as_number() const {
  const json& value = value_of(value_);
  if (!value.is_number()) throw error("expected a number, found ", value.type_name());
  return value.get<double>();
}

bool JsonCursor::as_bool() const {
  const json& value = value_of(value_);
  if (!value.is_boolean()) throw error("expected true or false, found ", value.type_name());
  return value.get<bool>();
}

std::vector<JsonCursor> JsonCursor::items() const {
  if (!is_array()) throw error("expected a list, found ", value_of(value_).type_name());
  std::vector<JsonCursor> found;
  const json& value = value_of(value_);
  found.reserve(value.size());
  for (std::size_t i = 0; i < value.size(); ++i) {
    found.emplace_back(&value[i], document_);
  }
  return found;
}

std::vector<std::uint64_t> JsonCursor::as_counts() const {
  std::vector<std::uint64_t> values;
  for (const JsonCursor& item : items()) values.push_back(item.as_count());
  return values;
}

std::vector<std::pair<std::string, JsonCursor>> JsonCursor::members() const {
  if (!is_object()) throw error("expected an object, found ", value_of(value_).type_name());
  std::vector<std::pair<std::string, JsonCursor>> found;
  for (const auto& [key, value] : value_of(value_).items()) {
    found.emplace_back(key, JsonCursor(&value, document_));
  }
  return found;
}

void JsonCursor::allow_keys(std::initializer_list<std::string_view> keys) const {
  if (!is_object()) throw error("expected an object, found ", value_of(value_).type_name());
  for (const auto& [key, value] : value_of(value_).items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      throw JsonCursor(&value, document_).error("unknown key, expected one of ", [&keys] {
        std::string list;
        for (const std::string_view known : keys) list += concat(list.empty() ? "" : ", ", known);
        return list;
      }());
    }
  }
}

std::optional<JsonCursor> JsonCursor::find(std::string_view key) const {
  const json& value = value_of(value_);
  if (!value.is_object()) throw error("expected an object, found ", value.type_name());
  const auto found = value.find(key);
  if (found == value.end()) return std::nullopt;
  return JsonCursor(&*found, document_);
}

JsonCursor JsonCursor::require(std::string_view key) const {
  auto found = find(key);
  if (!found) throw error("the key \"", key, "\" is missing");
  return *found;
}

std::string json_string(std::string_view text) { return json(text).dump(); }

}  // namespace ttrace::base
