#include "base/strict_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/number_text.h"

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

// The parser keeps the last of two equal keys; a manifest that says two things must be refused.
class StrictnessCheck {
 public:
  explicit StrictnessCheck(const std::string& file) : file_(file) {}

  bool operator()(int, json::parse_event_t event, json& parsed) {
    switch (event) {
      case json::parse_event_t::object_start:
      case json::parse_event_t::array_start:
        open_.emplace_back();
        if (open_.size() > kDeepest) {
          throw input_error(file_, ": JSON nested deeper than ", kDeepest, " levels");
        }
        break;
      case json::parse_event_t::object_end:
      case json::parse_event_t::array_end:
        open_.pop_back();
        break;
      case json::parse_event_t::key: {
        const auto& key = parsed.get_ref<const std::string&>();
        if (!open_.back().insert(key).second) {
          throw input_error(file_, ": the key \"", printable(key), "\" stands twice in one object");
        }
        break;
      }
      case json::parse_event_t::value:
        break;
    }
    return true;
  }

 private:
  const std::string& file_;
  std::vector<std::set<std::string>> open_;
};

}  // namespace

struct JsonDocument::Parsed {
  json value;
};

JsonDocument::JsonDocument(std::string_view text, std::string file)
    : parsed_(std::make_unique<Parsed>()), file_(std::move(file)) {
  // The parser takes it for the end of the text.
  if (text.find('\0') != std::string_view::npos) {
    throw input_error(file_, ": not valid JSON: it has a NUL byte");
  }
  StrictnessCheck check(file_);
  try {
    parsed_->value =
        json::parse(text, [&check](int depth, json::parse_event_t event, json& parsed) {
          return check(depth, event, parsed);
        });
  } catch (const json::exception& error) {
    throw input_error(file_, ": not valid JSON: ", printable(error.what()));
  }
}

JsonDocument::~JsonDocument() = default;

JsonCursor JsonDocument::root() const { return {&parsed_->value, &file_, ""}; }

std::string JsonDocument::text_of(const JsonCursor& cursor, const JsonDocument& document) {
  return document.parsed_->value.at(json::json_pointer(cursor.pointer())).dump();
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
    found.emplace_back(&value[i], file_, concat(pointer_, "/", i));
  }
  return found;
}

std::vector<std::pair<std::string, JsonCursor>> JsonCursor::members() const {
  if (!is_object()) throw error("expected an object, found ", value_of(value_).type_name());
  std::vector<std::pair<std::string, JsonCursor>> found;
  for (const auto& [key, value] : value_of(value_).items()) {
    found.emplace_back(key, JsonCursor(&value, file_, concat(pointer_, "/", escaped(key))));
  }
  return found;
}

void JsonCursor::allow_keys(std::initializer_list<std::string_view> keys) const {
  for (const auto& [key, value] : members()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      throw value.error("unknown key, expected one of ", [&keys] {
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
  return JsonCursor(&*found, file_, concat(pointer_, "/", escaped(key)));
}

JsonCursor JsonCursor::require(std::string_view key) const {
  auto found = find(key);
  if (!found) throw error("the key \"", key, "\" is missing");
  return *std::move(found);
}

}  // namespace ttrace::base
