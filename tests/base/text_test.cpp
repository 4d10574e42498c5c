#include "base/text.h"

#include <limits>
#include <string>
#include <vector>

#include "support/catch.h"

namespace ttrace::base::text_test {
namespace {

TEST_CASE("short numbers have three significant digits") {
  CHECK(short_number(0) == "0");
  CHECK(short_number(0.19449) == "0.194");
  CHECK(short_number(-2.3456) == "-2.35");
  CHECK(short_number(1.0) == "1");
  CHECK(short_number(99.96) == "100");
  CHECK(short_number(12345) == "12345");
  CHECK(short_number(99999) == "99999");
  CHECK(short_number(0.001) == "0.001");
}

TEST_CASE("short numbers write exponents without padding") {
  CHECK(short_number(1.6e6) == "1.6e6");
  CHECK(short_number(100000) == "1e5");
  CHECK(short_number(4e-7) == "4e-7");
  CHECK(short_number(-1.234e-300) == "-1.23e-300");
  CHECK(short_number(std::numeric_limits<double>::denorm_min()) == "4.94e-324");
}

TEST_CASE("short numbers name what is not finite") {
  CHECK(short_number(std::numeric_limits<double>::quiet_NaN()) == "nan");
  CHECK(short_number(std::numeric_limits<double>::infinity()) == "inf");
  CHECK(short_number(-std::numeric_limits<double>::infinity()) == "-inf");
}

TEST_CASE("bytes are counted in powers of 1000") {
  CHECK(human_bytes(0) == "0 B");
  CHECK(human_bytes(412) == "412 B");
  CHECK(human_bytes(999) == "999 B");
  CHECK(human_bytes(1000) == "1.0 kB");
  CHECK(human_bytes(1'900'000'000) == "1.9 GB");
  CHECK(human_bytes(999'949) == "999.9 kB");
  CHECK(human_bytes(999'950) == "1.0 MB");  // never "1000.0 kB"
  CHECK(human_bytes(std::numeric_limits<std::uint64_t>::max()) == "18.4 EB");
}

TEST_CASE("plurals follow the count") {
  CHECK(plural(0, "tensor") == "0 tensors");
  CHECK(plural(1, "tensor") == "1 tensor");
  CHECK(plural(2, "tensor") == "2 tensors");
  CHECK(plural(4, "loss") == "4 losses");
}

TEST_CASE("printable text keeps letters of every script") {
  const std::string text = "layers.0 · größe · 層 · 😀";
  CHECK(printable(text) == text);
}

TEST_CASE("printable text has no control characters") {
  CHECK(printable("a\nb\tc\x1b[2J\x7f") == "a\\x0ab\\x09c\\x1b[2J\\x7f");
  CHECK(printable(std::string_view("\0", 1)) == "\\x00");
  // U+009B starts an escape sequence on terminals as ESC [ does, U+0085 is a line break.
  CHECK(printable("a\xc2\x9b"
                  "2J") == "a\\xc2\\x9b2J");
  CHECK(printable("\xc2\x85") == "\\xc2\\x85");
  CHECK(printable("\xc2\xa0") == "\xc2\xa0");
}

TEST_CASE("printable text has no characters that are not seen or turn what is seen") {
  CHECK(printable("a\u202e\u0062") == "a\\u202eb");  // right to left from here on
  CHECK(printable("\u202a\u202c\u2066\u2069") == "\\u202a\\u202c\\u2066\\u2069");
  CHECK(printable("a\u200b\u200d\u2060\ufeffz") == "a\\u200b\\u200d\\u2060\\ufeffz");
  CHECK(printable("\u00ad\u061c\u2028") == "\\u00ad\\u061c\\u2028");
  CHECK(printable("\U000e0041") == "\\U000e0041");
  // Their neighbours are letters and marks that are seen.
  CHECK(printable("\u2010\u2027\u202f\u2070") == "\u2010\u2027\u202f\u2070");
}

TEST_CASE("printable text is valid UTF-8") {
  CHECK(printable("\xff\xfe") == "\\xff\\xfe");
  CHECK(printable("a\x80z") == "a\\x80z");                         // a continuation without a lead
  CHECK(printable("\xe5\xb1z") == "\\xe5\\xb1z");                  // cut short
  CHECK(printable("\xe5\xb1") == "\\xe5\\xb1");                    // cut short by the end
  CHECK(printable("\xc0\xaf") == "\\xc0\\xaf");                    // overlong
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");           // a surrogate
  CHECK(printable("\xf5\x80\x80\x80") == "\\xf5\\x80\\x80\\x80");  // beyond U+10FFFF
}

TEST_CASE("a short text stays as it is") {
  CHECK(shortened("") == "");
  CHECK(shortened("12345678", 8) == "12345678");
}

TEST_CASE("a long text keeps its beginning and its end") {
  CHECK(shortened("abcdefghijkl", 8) == "abcdef [... 4 bytes ...] kl");
}

TEST_CASE("no character is cut in two") {
  CHECK(shortened("abcde\u00e9ghij\u00e9l", 8) == "abcde [... 8 bytes ...] l");
}

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
}  // namespace ttrace::base::text_test
