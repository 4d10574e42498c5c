#include "layout/name_pattern.h"

#include "base/refusal.h"

namespace ttrace::layout {
namespace {

using test::check_refused;
using Captures = NamePattern::Captures;

// What `to` makes of a name that `from` takes apart, or "no match".
std::string renamed(const std::string& from, const std::string& to, const std::string& name) {
  const auto captures = NamePattern(from).match(name);
  return captures ? NamePattern(to).filled(*captures) : "no match";
}

TEST_CASE("a pattern without captures is the name itself") {
  CHECK(NamePattern("lm_head.weight").match("lm_head.weight") == Captures{});
  CHECK_FALSE(NamePattern("lm_head.weight").match("lm_head.weight2"));
  CHECK_FALSE(NamePattern("lm_head.weight").match("lm_head.weigh"));
  CHECK_FALSE(NamePattern("lm_head.weight").match(""));
  CHECK_FALSE(NamePattern("a*").match("ab"));
  CHECK(NamePattern("a*").match("a*"));
}

TEST_CASE("a capture is one or more characters without a dot") {
  const NamePattern pattern("layers.{i}.fc");
  CHECK(pattern.match("layers.31.fc") == Captures{{"i", "31"}});
  CHECK_FALSE(pattern.match("layers..fc"));
  CHECK_FALSE(pattern.match("layers.1.2.fc"));
  CHECK_FALSE(pattern.match("layers.1.fc.weight"));
  CHECK(NamePattern("{a}").match("x") == Captures{{"a", "x"}});
  CHECK_FALSE(NamePattern("{a}").match(""));
  CHECK_FALSE(NamePattern("{a}").match("x.y"));
}

TEST_CASE("a capture with dots is one or more of any characters") {
  const NamePattern pattern("model.{rest...}");
  CHECK(pattern.match("model.a.b.c") == Captures{{"rest", "a.b.c"}});
  CHECK(pattern.match("model..") == Captures{{"rest", "."}});
  CHECK_FALSE(pattern.match("model."));
}

TEST_CASE("where several ways match the earlier captures are as short as possible") {
  CHECK(NamePattern("{a...}.{b...}").match("x.y.z") == Captures{{"a", "x"}, {"b", "y.z"}});
  CHECK(NamePattern("{a}{b}").match("xyz") == Captures{{"a", "x"}, {"b", "yz"}});
  CHECK(NamePattern("{a...}.w.{b}").match("p.w.w.q") == Captures{{"a", "p.w"}, {"b", "q"}});
  CHECK(NamePattern("{a}_{b}").match("q_proj_x") == Captures{{"a", "q"}, {"b", "proj_x"}});
}

TEST_CASE("an earlier capture grows where the shortest leaves the rest without a match") {
  CHECK(NamePattern("{a...}.{b}").match("x.y.z") == Captures{{"a", "x.y"}, {"b", "z"}});
  CHECK(NamePattern("{a}_{b}_x").match("1_2_3_x") == Captures{{"a", "1"}, {"b", "2_3"}});
  CHECK(NamePattern("{a}bb").match("bbbb") == Captures{{"a", "bb"}});
}

TEST_CASE("the number of a further output stays at the end of the new name") {
  CHECK(renamed("attn.{i}", "self.{i}", "attn.3[1]") == "self.3[1]");
  CHECK(renamed("m.{x...}", "d.{x}", "m.a.b[12]") == "d.a.b[12]");
  CHECK(NamePattern("attn.{i}").match("attn.3[1]") == Captures{{"[]", "[1]"}, {"i", "3"}});
}

TEST_CASE("a pattern may name a further output itself") {
  CHECK(renamed("attn[1]", "scores", "attn[1]") == "scores");
  CHECK(renamed("{x...}[1]", "{x}.second", "a.b[1]") == "a.b.second");
  CHECK(renamed("{x...}[1]", "{x}.second", "a.b[2]") == "no match");
}

TEST_CASE("brackets that are no output number stay in the name") {
  CHECK(renamed("{x}", "y{x}", "a[]") == "ya[]");
  CHECK(renamed("{x}", "y{x}", "a[1") == "ya[1");
  CHECK(renamed("{x}", "y{x}", "a1]") == "ya1]");
  CHECK(renamed("{x}", "y{x}", "[1]") == "y[1]");
  CHECK(renamed("{x}", "y{x}", "a[b]") == "ya[b]");
}

TEST_CASE("captures may be used in any order, more than once and not at all") {
  const std::string from = "e{i}.l{j}.{w}";
  CHECK(renamed(from, "{j}.{i}.{w}", "e1.l2.bias") == "2.1.bias");
  CHECK(renamed(from, "{i}", "e1.l2.bias") == "1");
  CHECK(NamePattern(from).captures() == std::vector<std::string>{"i", "j", "w"});
  CHECK(NamePattern(from).text() == from);
}

TEST_CASE("what is captured is taken as it stands") {
  CHECK(renamed("{a}.x", "{a}", "{b}.x") == "{b}");
  CHECK(renamed("{a}.x", "{a}", "größe.x") == "größe");
}

TEST_CASE("braces that do not pair are refused") {
  for (const char* text : {"{", "}", "a{", "a}b", "{a", "a}", "{{a}}", "{a{b}}", "{a}}", "{a}{"}) {
    CAPTURE(text);
    check_refused([text] { NamePattern pattern(text); },
                  {"the pattern ", text, "brace without its partner"});
  }
}

TEST_CASE("captures need names of their own") {
  check_refused([] { NamePattern pattern("a{}"); }, {"a{}", "capture"});
  check_refused([] { NamePattern pattern("a{...}"); }, {"a{...}", "capture"});
  check_refused([] { NamePattern pattern("{i}.{i}"); }, {"two captures {i}"});
  check_refused([] { NamePattern pattern("{i}.{i...}"); }, {"two captures {i}"});
  check_refused([] { NamePattern pattern("{[]}"); }, {"the pattern {[]}"});
  check_refused([] { NamePattern pattern(""); }, {"an empty pattern"});
}

TEST_CASE("eight captures are the most") {
  const std::string eight = "{a}.{b}.{c}.{d}.{e}.{f}.{g}.{h}";
  CHECK(renamed(eight, "{h}{g}{f}{e}{d}{c}{b}{a}", "1.2.3.4.5.6.7.8") == "87654321");
  check_refused([&] { NamePattern pattern(eight + ".{i}"); }, {"has more than 8 captures"});
}

// Every way to deal the name out to the captures would take years.
TEST_CASE("a long name that no way of matching fits is reported at once") {
  const NamePattern pattern("{a...}{b...}{c...}{d...}{e...}{f...}{g...}{h...}!");
  CHECK_FALSE(pattern.match(std::string(512, 'x')));
}

}  // namespace
}  // namespace ttrace::layout
