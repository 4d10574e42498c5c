#include "base/names.h"

#include <string>
#include <vector>

#include "support/catch.h"

namespace ttrace::base {
namespace {

TEST_CASE("a glob matches the whole text") {
  CHECK(glob_match("abc", "abc"));
  CHECK_FALSE(glob_match("abc", "abcd"));
  CHECK_FALSE(glob_match("abc", "xabc"));
  CHECK_FALSE(glob_match("abc", "ab"));
  CHECK(glob_match("", ""));
  CHECK_FALSE(glob_match("", "a"));
}

TEST_CASE("a star stands for any characters and dots too") {
  CHECK(glob_match("*", ""));
  CHECK(glob_match("*", "layers.0.mlp"));
  CHECK(glob_match("layers.*.mlp", "layers.0.x.mlp"));
  CHECK(glob_match("*.mlp", "layers.0.mlp"));
  CHECK(glob_match("layers.*", "layers."));
  CHECK_FALSE(glob_match("layers.*.mlp", "layers.0.mlp.fc1"));
  CHECK(glob_match("**a**", "bab"));
  CHECK(glob_match("*aab", "aaaaab"));  // the star must take back what it took
}

TEST_CASE("a question mark stands for one character") {
  CHECK(glob_match("layers.?", "layers.3"));
  CHECK_FALSE(glob_match("layers.?", "layers."));
  CHECK_FALSE(glob_match("layers.?", "layers.12"));
  CHECK(glob_match("?*", "a"));
  CHECK_FALSE(glob_match("?*", ""));
}

TEST_CASE("brackets of a glob are literal") {
  CHECK(glob_match("router[1]", "router[1]"));
  CHECK_FALSE(glob_match("router[1]", "router1"));
  CHECK(glob_match("*[1]", "router[1]"));
  CHECK_FALSE(glob_match("[a-z]", "b"));
  CHECK(glob_match("a\\*", "a\\b"));  // a backslash escapes nothing
}

// The plain definition, exponential in the number of stars.
bool naive_match(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*') {
    return naive_match(pattern.substr(1), text) ||
           (!text.empty() && naive_match(pattern, text.substr(1)));
  }
  if (text.empty() || (pattern[0] != '?' && pattern[0] != text[0])) return false;
  return naive_match(pattern.substr(1), text.substr(1));
}

std::vector<std::string> words(const std::string& alphabet, std::size_t longest) {
  std::vector<std::string> all{""};
  for (std::size_t from = 0, length = 1; length <= longest; ++length) {
    const std::size_t to = all.size();
    for (; from < to; ++from) {
      for (const char c : alphabet) all.push_back(all[from] + c);
    }
  }
  return all;
}

TEST_CASE("globs agree with their definition on all short patterns and texts") {
  const auto texts = words("ab", 5);
  std::size_t wrong = 0;
  std::string example;
  for (const std::string& pattern : words("ab*?", 4)) {
    for (const std::string& text : texts) {
      if (glob_match(pattern, text) == naive_match(pattern, text)) continue;
      ++wrong;
      example = pattern + " on " + text;
    }
  }
  CAPTURE(example);
  CHECK(wrong == 0);
}

TEST_CASE("many stars do not blow up") {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "a*";
  pattern += "b";
  CHECK_FALSE(glob_match(pattern, std::string(4000, 'a')));
  CHECK(glob_match(pattern, std::string(4000, 'a') + "b"));
}

using Names = std::vector<std::string>;

TEST_CASE("the nearest names come by edit distance and then in order") {
  const Names names{"decoder", "encoder", "embedding", "encoders"};
  CHECK(nearest_names("encodr", names) == Names{"encoder", "encoders", "decoder"});
  CHECK(nearest_names("encoder", names, 1) == Names{"encoder"});
  CHECK(nearest_names("kitten", {"bitten", "sitting", "mitten"}, 2) == Names{"bitten", "mitten"});
  CHECK(nearest_names("x", {}).empty());
}

TEST_CASE("names that contain the wanted one are nearest") {
  CHECK(nearest_names("mlp", {"map", "decoder.layers.0.mlp", "nlp"}, 1) ==
        Names{"decoder.layers.0.mlp"});
  // A pattern is compared without its stars.
  CHECK(nearest_names("*mlp*", {"map", "decoder.layers.0.mlp"}, 1) ==
        Names{"decoder.layers.0.mlp"});
}

TEST_CASE("a name is suggested once and very long ones never") {
  CHECK(nearest_names("ab", {"aa", "aa", "cc"}) == Names{"aa", "cc"});
  CHECK(nearest_names("ab", {std::string(513, 'a'), "zz"}) == Names{"zz"});
  CHECK(nearest_names("ab", {std::string(512, 'a')}).size() == 1);
  CHECK(nearest_names(std::string(100000, 'a'), {"a"}).empty());
}

TEST_CASE("a hint reads as the end of a sentence") {
  CHECK(nearest_hint("a", {}).empty());
  CHECK(nearest_hint("a", {"b"}) == "; the nearest name is b");
  CHECK(nearest_hint("a", {"b", "c"}) == "; the nearest names are b and c");
  CHECK(nearest_hint("a", {"b", "c", "d", "e"}) == "; the nearest names are b, c and d");
}

TEST_CASE("a mistyped word has one suggestion, another word none") {
  const Names commands{"compare", "calibrate", "inspect", "lint", "merge", "report"};
  CHECK(did_you_mean("comapre", commands) == "; did you mean \"compare\"?");
  CHECK(did_you_mean("insp", commands) == "; did you mean \"inspect\"?");
  CHECK(did_you_mean("xyzzy", commands).empty());
  CHECK(did_you_mean("lint", {}).empty());
  CHECK(did_you_mean(std::string(100'000, 'c'), commands).empty());
}

}  // namespace

}  // namespace ttrace::base
