// Reads untrusted JSON: anything unexpected is an input error with the file, the JSON pointer and
// the reason. Hides the JSON library, which costs a second of compile time per file that includes
// it.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace ttrace::base {

class JsonDocument;
struct JsonValues;

// How many bytes the values of one document may take, beside its text: --memory, 2 GiB by default.
// A document whose values take less than twice its text is read all the same: a manifest of a run
// of thousands of ranks is large, and no attack.
void limit_json_memory(std::uint64_t bytes);
std::uint64_t json_memory();
// As many values as the text can have, at most.
std::uint64_t most_json_values(std::string_view text);

// One value of a document. Valid as long as the document.
class JsonCursor {
 public:
  JsonCursor(const void* value, const JsonDocument* document)
      : value_(value), document_(document) {}

  // The JSON pointer of the value. Searches from the root, so use it for errors only.
  std::string pointer() const;
  // The value as compact JSON, for values that are passed on unread.
  std::string text() const;
  bool is_null() const;
  bool is_string() const;
  bool is_object() const;
  bool is_array() const;

  // The functions below throw an input error naming file and pointer if the type is wrong.
  std::string as_string() const;
  std::string_view as_text() const;  // the same, valid as long as the document
  std::uint64_t as_count() const;    // a whole number ≥ 0 that fits 64 bits
  double as_number() const;
  bool as_bool() const;
  std::vector<JsonCursor> items() const;
  std::vector<std::uint64_t> as_counts() const;
  std::vector<std::string> as_strings() const;
  std::vector<std::pair<std::string, JsonCursor>> members() const;

  // Throws an input error if the object has a key that is not listed.
  void allow_keys(std::initializer_list<std::string_view> keys) const;
  std::optional<JsonCursor> find(std::string_view key) const;
  JsonCursor require(std::string_view key) const;

  // Throws an input error, which ends with `remedy`, unless the text is `expected`, the format and
  // version that this program reads: "ttrace.map/2". Earlier versions were never released.
  void require_format(std::string_view expected, std::string_view remedy = {}) const;

  template <typename... Parts>
  InputError error(const Parts&... parts) const {
    return input_error(place(), ": ", parts...);
  }

 private:
  std::string place() const;  // file and pointer

  const void* value_;
  const JsonDocument* document_;
};

class JsonDocument {
 public:
  // `file` is used in messages only. Throws an input error unless `text` is one JSON value, without
  // duplicate keys in an object and nested at most 64 levels deep, whose values fit into memory.
  JsonDocument(std::string_view text, std::string file);
  ~JsonDocument();
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  JsonCursor root() const;
  const std::string& file() const { return file_; }

 private:
  friend class JsonCursor;
  friend void for_each_json_member(
      const std::function<std::string_view()>& next, const std::string& file,
      const std::function<void(const std::string& key, const JsonCursor& value)>& visit);

  std::unique_ptr<JsonValues> parsed_;
  std::string file_;
};

// Gives a text piece by piece; the end is empty.
using JsonPieces = std::function<std::string_view()>;

// Visits the members of the object that the text is, in its order, and keeps one at a time, for the
// header of a million tensors. Throws as JsonDocument does, but for a key that stands twice in the
// outermost object: that is left to the caller.
void for_each_json_member(
    const JsonPieces& next, const std::string& file,
    const std::function<void(const std::string& key, const JsonCursor& value)>& visit);

// `text` as a JSON string, with its quotes. `text` must be UTF-8.
std::string json_string(std::string_view text);

}  // namespace ttrace::base
