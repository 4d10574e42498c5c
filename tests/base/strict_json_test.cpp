#include "base/strict_json.h"

#include <limits>
#include <utility>
#include <vector>

#include "base/refusal.h"

namespace ttrace::base::strict_json_test {
namespace {

using test::check_refused;

JsonDocument parse(std::string_view text) { return {text, "m.json"}; }

TEST_CASE("a document gives its values") {
  const JsonDocument document = parse(
      R"({"s": "ü", "n": 18446744073709551615, "x": -1.5, "b": true, "l": [1, 2], "z": null})");
  const JsonCursor root = document.root();
  CHECK(root.is_object());
  CHECK(root.pointer().empty());
  CHECK(root.require("s").as_string() == "ü");
  CHECK(root.require("n").as_count() == std::numeric_limits<std::uint64_t>::max());
  CHECK(root.require("x").as_number() == -1.5);
  CHECK(root.require("n").as_number() == 0x1p64);
  CHECK(root.require("b").as_bool());
  CHECK(root.require("z").is_null());
  const auto items = root.require("l").items();
  REQUIRE(items.size() == 2);
  CHECK(items[1].as_count() == 2);
  CHECK(items[1].pointer() == "/l/1");
  CHECK(root.members().size() == 6);
  CHECK_FALSE(root.find("absent").has_value());
}

TEST_CASE("values of another type are refused with their pointer") {
  const JsonDocument document = parse(R"({"a": [{"b": "text"}, 3]})");
  const JsonCursor text = document.root().require("a").items()[0].require("b");
  const JsonCursor number = document.root().require("a").items()[1];
  check_refused([&] { text.as_count(); }, {"m.json: /a/0/b: ", "whole number", "\"text\""});
  check_refused([&] { text.as_number(); }, {"m.json: /a/0/b: ", "expected a number, found string"});
  check_refused([&] { text.as_bool(); }, {"/a/0/b: ", "true or false, found string"});
  check_refused([&] { text.items(); }, {"/a/0/b: ", "a list, found string"});
  check_refused([&] { text.members(); }, {"/a/0/b: ", "an object, found string"});
  check_refused([&] { text.find("x"); }, {"/a/0/b: ", "an object, found string"});
  check_refused([&] { text.allow_keys({"x"}); }, {"/a/0/b: ", "an object, found string"});
  check_refused([&] { number.as_string(); }, {"/a/1: ", "a string, found number"});
  check_refused([&] { document.root().as_string(); }, {"m.json: the top level: "});
  check_refused([&] { document.root().require("c"); }, {"the key \"c\" is missing"});
}

TEST_CASE("counts are whole numbers from 0 to the largest of 64 bits") {
  const JsonDocument document = parse(
      R"({"big": 18446744073709551616, "negative": -1, "float": 1.0, "exponent": 1e3, "true": true})");
  for (const char* key : {"big", "negative", "float", "exponent", "true"}) {
    CAPTURE(key);
    check_refused([&] { document.root().require(key).as_count(); },
                  {concat("/", key, ": "), "whole number from 0 to 2^64-1"});
  }
  CHECK(document.root().require("big").as_number() == 0x1p64);
}

TEST_CASE("an unknown key is refused and the known ones are told") {
  const JsonDocument document = parse(R"({"run": {"modle": 1}})");
  const JsonCursor run = document.root().require("run");
  check_refused(
      [&] {
        run.allow_keys({"model", "command"});
      },
      {"m.json: /run/modle: unknown key", "model, command"});
  CHECK_NOTHROW(run.allow_keys({"modle", "other"}));
}

TEST_CASE("a key that stands twice is refused at any depth") {
  check_refused([] { parse(R"({"a": 1, "a": 1})"); }, {"m.json", "\"a\" stands twice"});
  check_refused([] { parse(R"([{"x": {"b": 1, "c": 2, "b": 3}}])"); }, {"\"b\" stands twice"});
  // The same key by another spelling.
  check_refused([] { parse(R"({"a": 1, "\u0061": 2})"); }, {"\"a\" stands twice"});
  CHECK_NOTHROW(parse(R"({"a": {"a": [{"a": 1}, {"a": 2}]}})"));
}

TEST_CASE("pointers escape what their syntax and the terminal need") {
  const JsonDocument document = parse(R"({"a/b~c": {"\u001b": [true]}})");
  const auto [key, value] = document.root().members().at(0);
  CHECK(key == "a/b~c");
  CHECK(value.pointer() == "/a~1b~0c");
  CHECK(document.root().require("a/b~c").pointer() == "/a~1b~0c");
  const std::string deep = value.members().at(0).second.items().at(0).pointer();
  CHECK(deep == "/a~1b~0c/\\x1b/0");
}

TEST_CASE("an object of many keys is read, and a key that stands twice in it refused") {
  std::string members;
  for (int i = 0; i < 100; ++i) members += concat("\"key", i, "\": [", i, ", {}], ");
  const JsonDocument document = parse(concat("{", members, "\"last\": 1}"));
  CHECK(document.root().members().size() == 101);
  CHECK(document.root().require("key99").items()[0].as_count() == 99);
  CHECK(document.root().require("key99").items()[1].pointer() == "/key99/1");
  CHECK(document.root().require("last").pointer() == "/last");
  for (const char* key : {"key0", "key31", "key32", "key99"}) {
    CAPTURE(key);
    check_refused([&] { parse(concat("{", members, "\"", key, "\": 1}")); }, {"stands twice"});
  }
}

TEST_CASE("members come by key, and of several unknown keys the first by name is named") {
  const JsonDocument document = parse(R"({"b": 1, "c": {"a": 1}, "a": [[], {}, [1]]})");
  std::string keys;
  for (const auto& [key, value] : document.root().members()) keys += key;
  CHECK(keys == "abc");
  CHECK(document.root().require("a").items()[2].items()[0].pointer() == "/a/2/0");
  check_refused([&] { document.root().allow_keys({"c"}); }, {"m.json: /a: unknown key"});
}

TEST_CASE("nesting is limited to 64 levels") {
  const auto nested = [](std::size_t levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  CHECK_NOTHROW(parse(nested(64)));
  check_refused([&] { parse(nested(65)); }, {"m.json", "nested deeper than 64"});
  check_refused([] { parse(std::string(100000, '[')); }, {"nested deeper than 64"});
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  check_refused([&] { parse(objects); }, {"nested deeper than 64"});
}

TEST_CASE("what is not one JSON value is refused") {
  const std::string cases[] = {"",
                               " ",
                               "{",
                               "[1,",
                               "[1,]",
                               "{\"a\":1,}",
                               "{} x",
                               "{} {}",
                               "// c\n{}",
                               "{\"a\" 1}",
                               "nul",
                               "NaN",
                               "Infinity",
                               "1e999",
                               "-1e999",
                               "01",
                               "+1",
                               "'a'",
                               "\"a",
                               "\"\n\"",
                               "\"\\q\"",
                               "\"\\ud800\"",
                               "{a: 1}",
                               "\xff\xfe{}",
                               "\"\xff\"",
                               "\"\xc3\"",
                               "\"\xc0\xaf\"",
                               "\"\xed\xa0\x80\"",
                               std::string("{}\0", 3)};
  for (const std::string& text : cases) {
    CAPTURE(text);
    check_refused([&] { parse(text); }, {"m.json: not valid JSON"});
  }
}

TEST_CASE("messages about broken JSON cannot move the cursor") {
  const auto error = test::error_of([] { parse("{\"\x1b[2J\": 1}"); });
  REQUIRE(error.has_value());
  CHECK_FALSE(test::contains(error->what(), "\x1b"));
}

TEST_CASE("a part of a document is passed on as text") {
  const JsonDocument document = parse(R"({"run": {"extra": {"b": [1, 2.5, null], "a": "ü"}}})");
  const JsonCursor extra = document.root().require("run").require("extra");
  CHECK(extra.text() == R"({"a":"ü","b":[1,2.5,null]})");
}

// The keys and values that are visited of a text in pieces of `size` characters.
std::vector<std::pair<std::string, std::string>> members_of(std::string_view text,
                                                            std::size_t size) {
  std::vector<std::pair<std::string, std::string>> members;
  const auto next = [&] {
    const std::string_view piece = text.substr(0, size);
    text.remove_prefix(piece.size());
    return piece;
  };
  for_each_json_member(next, "m.json", [&](const std::string& key, const JsonCursor& value) {
    members.emplace_back(key, value.text());
  });
  return members;
}

TEST_CASE("the members of a text in pieces are visited one by one") {
  const std::string text =
      R"({"b": {"x": [1, {"y": "z"}], "b": null}, "": [], "a/c": "ü", "n": -1.5, "t": true} )";
  const std::vector<std::pair<std::string, std::string>> expected{
      {"b", R"({"b":null,"x":[1,{"y":"z"}]})"},
      {"", "[]"},
      {"a/c", R"("ü")"},
      {"n", "-1.5"},
      {"t", "true"}};
  for (std::size_t size = 1; size <= text.size(); ++size) CHECK(members_of(text, size) == expected);
  CHECK(members_of("{}", 1).empty());
}

TEST_CASE("what is wrong in a text in pieces is refused with its place") {
  const std::pair<std::string, const char*> cases[] = {
      {"[]", "m.json: the top level: expected an object, found array"},
      {"3", "expected an object, found number"},
      {"", "not valid JSON"},
      {"{\"a\": 1", "not valid JSON"},
      {"{\"a\": 1} {}", "not valid JSON"},
      {std::string("{\"a\": 1}\0", 9), "NUL byte"},
      {R"({"a": {"b": 1, "b": 2}})", "the key \"b\" stands twice"},
      {R"({"a": )" + std::string(64, '[') + std::string(64, ']') + "}", "deeper than 64"}};
  for (const auto& [text, why] : cases) {
    CAPTURE(text);
    for (const std::size_t size : {1, 3, 100}) {
      check_refused([&] { members_of(text, size); }, {"m.json", why});
    }
  }
  const auto whole = [text = std::string_view(R"({"x": 0, "a/b": {"c": [0, {}]}})")]() mutable {
    return std::exchange(text, {});
  };
  const auto require_numbers = [](const std::string& key, const JsonCursor& value) {
    if (key == "a/b") value.require("c").as_counts();
  };
  check_refused([&] { for_each_json_member(whole, "m.json", require_numbers); },
                {"m.json: /a~1b/c/1: expected a whole number"});
}

TEST_CASE("a file of another format or version says what it is, and what is read") {
  const auto refused = [](const std::string& found, const char* remedy) {
    const JsonDocument document = parse(concat("{\"schema\": \"", found, "\"}"));
    return test::refusal_of(
        [&] { document.root().require("schema").require_format("ttrace.map/2", remedy); });
  };
  CHECK(refused("ttrace.map/2", "").empty());
  CHECK(refused("ttrace.map/3", "") ==
        "m.json: /schema: this is \"ttrace.map/3\", but this ttrace reads \"ttrace.map/2\"");
  CHECK(refused("ttrace.map/1", "write it again") ==
        "m.json: /schema: this is \"ttrace.map/1\", of a version that was never released, but this "
        "ttrace reads \"ttrace.map/2\"; write it again");
  for (const char* other : {"", "/", "ttrace.cap/1", "ttrace.map/", "ttrace.map"}) {
    CHECK(refused(other, "").find("never released") == std::string::npos);
  }
}

// Restores what documents may take.
struct MemoryLimit {
  explicit MemoryLimit(std::uint64_t bytes) : before(json_memory()) { limit_json_memory(bytes); }
  ~MemoryLimit() { limit_json_memory(before); }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;
  std::uint64_t before;
};

TEST_CASE("values beyond the memory are refused, unless they are in proportion to their text") {
  const MemoryLimit limit(1 << 16);
  std::string many = "[0";
  std::string keys = "{\"\": 0";
  std::string wordy = "[0";
  for (int i = 0; i < 5000; ++i) {
    many += ",0";
    keys += concat(",\"", i, "\":0");
    wordy += ",\"a text of a manifest\"";
  }
  check_refused([&] { parse(many + "]"); },
                {"m.json: its values take more than 65.5 kB", "--memory"});
  check_refused([&] { parse(keys + "}"); }, {"its values take more than"});
  check_refused([&] { members_of("{\"a\": " + many + "]}", 100); }, {"its values take more than"});
  CHECK(parse(wordy + "]").root().items().size() == 5001);
}

}  // namespace
}  // namespace ttrace::base::strict_json_test
