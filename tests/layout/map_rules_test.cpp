#include "layout/map_rules.h"

#include "base/refusal.h"

namespace ttrace::layout::map_rules_test {
namespace {

using test::check_refused;

// A file whose only rule, of the candidate, has these members.
std::string one_rule(const std::string& members) {
  return R"({"schema": "ttrace.map/2", "candidate": [{)" + members + "}]}";
}

MapRule parsed(const std::string& members) {
  return parse_map_rules(one_rule(members), "map.json").candidate.at(0);
}

void check_rule_refused(const std::string& members,
                        std::initializer_list<std::string_view> reasons) {
  CAPTURE(members);
  check_refused([&] { parsed(members); }, {"map.json: /candidate/0"});
  check_refused([&] { parsed(members); }, reasons);
}

const std::string kPlain = R"("from": "a", "to": "b")";
const std::string kConcat = R"("from": ["a", "c"], "to": "b", )";
const std::string kSplit = R"("from": "a", "to": ["b", "c"], )";

TEST_CASE("a rule that only renames") {
  const MapRule rule = parsed(R"("from": "model.{i}.{w...}", "to": "decoder.{i}.{w}")");
  REQUIRE(rule.from.size() == 1);
  CHECK(rule.from[0].text() == "model.{i}.{w...}");
  REQUIRE(rule.to.size() == 1);
  CHECK(rule.to[0].text() == "decoder.{i}.{w}");
  CHECK(rule.kinds.empty());
  CHECK(rule.groups == 1);
  CHECK(rule.pointer == "/candidate/0");
}

TEST_CASE("every member is read") {
  const MapRule joined = parsed(
      R"("from": ["a", "b"], "to": "c", "kind": ["param", "main_grad"],
         "concat": {"dim": 1, "groups": 4}, "trim": {"dim": 0, "size": 5},
         "pad": {"dim": 2, "size": 7}, "transpose": [1, 0, 2])");
  CHECK(joined.from.size() == 2);
  CHECK(joined.kinds == std::vector{trace::Kind::kParam, trace::Kind::kMainGrad});
  CHECK(joined.dim == 1);
  CHECK(joined.groups == 4);
  CHECK(joined.trim->size == 5);
  CHECK(joined.pad->dim == 2);
  CHECK(joined.transpose == std::vector<std::size_t>{1, 0, 2});
  const MapRule cut = parsed(kSplit + R"("split": {"dim": 3, "groups": 2, "sizes": [4, 0]})");
  CHECK(cut.dim == 3);
  CHECK(cut.groups == 2);
  CHECK(cut.sizes == std::vector<std::uint64_t>{4, 0});
  CHECK(parsed(kPlain + R"(, "kind": "loss")").kinds == std::vector{trace::Kind::kLoss});
}

TEST_CASE("both sides have their rules, in the file's order") {
  const MapRules rules = parse_map_rules(
      R"({"schema": "ttrace.map/2", "reference": [{"from": "a", "to": "b"}],
          "candidate": [{"from": "c", "to": "d"}, {"from": "e", "to": "f"}]})",
      "map.json");
  CHECK(rules.file == "map.json");
  REQUIRE(rules.reference.size() == 1);
  CHECK(rules.reference[0].pointer == "/reference/0");
  REQUIRE(rules.candidate.size() == 2);
  CHECK(rules.candidate[1].pointer == "/candidate/1");
  CHECK(rules.candidate[1].from[0].text() == "e");
}

TEST_CASE("a file of something else is refused") {
  const auto refused = [](const std::string& text, std::string_view reason) {
    CAPTURE(text);
    check_refused([&] { parse_map_rules(text, "map.json"); }, {"map.json: ", reason});
  };
  refused("", "not valid JSON");
  refused("{", "not valid JSON");
  refused("[]", "the top level: expected an object, found array");
  refused("null", "the top level: expected an object");
  refused("{}", "the key \"schema\" is missing");
  refused(R"({"schema": 1})", "/schema: expected a string");
  refused(R"({"schema": "ttrace.layout/1", "rules": []})",
          "/schema: this is \"ttrace.layout/1\", but this ttrace reads \"ttrace.map/2\"");
  refused(R"({"schema": "ttrace.map/3"})", "this is \"ttrace.map/3\"");
  refused(R"({"schema": "ttrace.map/2"})", "no rules; expected a list \"candidate\"");
  refused(R"({"schema": "ttrace.map/1"})",
          "of a version that was never released, but this ttrace reads \"ttrace.map/2\"");
  refused(R"({"schema": "ttrace.map/2"})", "no rules; expected a list \"candidate\"");
  const MapRules none = parse_map_rules(R"({"schema": "ttrace.map/2", "candidate": []})", "r.json");
  CHECK(none.candidate.empty());
  refused(R"({"schema": "ttrace.map/2", "rules": []})", "/rules: unknown key");
  refused(R"({"schema": "ttrace.map/2", "candidate": {}})", "/candidate: expected a list");
  refused(R"({"schema": "ttrace.map/2", "candidate": ["a"]})", "/candidate/0: expected an object");
  refused(R"({"schema": "ttrace.map/2", "schema": "ttrace.map/2"})", "stands twice");
}

TEST_CASE("a rule says what becomes what") {
  check_rule_refused(R"("from": "a")", {"the key \"to\" is missing"});
  check_rule_refused(R"("to": "a")", {"the key \"from\" is missing"});
  check_rule_refused(R"("from": [], "to": "a")", {"/from: expected at least one"});
  check_rule_refused(R"("from": "a", "to": [])", {"/to: expected at least one"});
  check_rule_refused(R"("from": 1, "to": "a")", {"/from: expected a list, found number"});
  check_rule_refused(R"("from": ["a", 1], "to": "a")", {"/from/1: expected a string"});
  check_rule_refused(kPlain + R"(, "colour": "red")", {"/colour: unknown key"});
}

TEST_CASE("a pattern that is none is refused where it stands") {
  check_rule_refused(R"("from": "a{i", "to": "b")", {"/from: the pattern a{i has a brace"});
  check_rule_refused(R"("from": "a", "to": "b}")", {"/to: the pattern b} has a brace"});
  check_rule_refused(R"("from": "", "to": "b")", {"/from: an empty pattern"});
}

TEST_CASE("what a name is made of must have been captured") {
  check_rule_refused(R"("from": "a.{i}", "to": "b.{j}")",
                     {"{j} of \"to\" is not captured by \"from\""});
  check_rule_refused(R"("from": ["a.{i}", "c.{j}"], "to": "b", "concat": {"dim": 0})",
                     {"different captures: a.{i} and c.{j}"});
  check_rule_refused(R"("from": ["a.{i}", "c"], "to": "b.{i}", "concat": {"dim": 0})",
                     {"different captures"});
  // The order is free, and a name need not use all of them.
  CHECK(parsed(R"("from": ["a.{i}.{j}", "b.{j}.{i}"], "to": "{j}", "concat": {"dim": 0})")
            .from.size() == 2);
}

TEST_CASE("several tensors on one side need a word on how") {
  check_rule_refused(R"("from": ["a", "c"], "to": "b")", {"by \"concat\": {\"dim\": ...}"});
  check_rule_refused(R"("from": "a", "to": ["b", "c"])", {"by \"split\": {\"dim\": ...}"});
  check_rule_refused(R"("from": ["a", "c"], "to": ["b", "d"], "concat": {"dim": 0})",
                     {"several tensors to several"});
  check_rule_refused(kPlain + R"(, "concat": {"dim": 0})",
                     {"\"concat\" needs several patterns in \"from\""});
  check_rule_refused(kPlain + R"(, "split": {"dim": 0})",
                     {"\"split\" needs several names in \"to\""});
  check_rule_refused(kConcat + R"("split": {"dim": 0})", {"concat"});
  check_rule_refused(kSplit + R"("concat": {"dim": 0})", {"concat"});
  check_rule_refused(kConcat + R"("concat": {"dim": 0}, "split": {"dim": 0})", {"split"});
}

TEST_CASE("the numbers of a concatenation or split are checked") {
  check_rule_refused(kConcat + R"("concat": {})", {"/concat: the key \"dim\" is missing"});
  check_rule_refused(kConcat + R"("concat": 0)", {"/concat: expected an object"});
  check_rule_refused(kConcat + R"("concat": {"dim": -1})", {"/concat/dim", "found -1"});
  check_rule_refused(kConcat + R"("concat": {"dim": 0.5})", {"/concat/dim", "found 0.5"});
  check_rule_refused(kConcat + R"("concat": {"dim": 0, "groups": 0})",
                     {"/concat/groups: 0 groups"});
  check_rule_refused(kConcat + R"("concat": {"dim": 0, "sizes": [1, 1]})",
                     {"/concat/sizes: unknown key"});
  check_rule_refused(kSplit + R"("split": {"dim": 0, "sizes": [1, 2, 3]})",
                     {"/split/sizes: 3 sizes for 2 tensors"});
  check_rule_refused(kSplit + R"("split": {"dim": 0, "sizes": []})", {"0 sizes for 2 tensors"});
  check_rule_refused(kSplit + R"("split": {"dim": 0, "sizes": 2})",
                     {"/split/sizes: expected a list"});
}

TEST_CASE("trim, pad and transpose are checked") {
  check_rule_refused(kPlain + R"(, "trim": {"dim": 0})", {"/trim: the key \"size\" is missing"});
  check_rule_refused(kPlain + R"(, "trim": {"size": 0})", {"/trim: the key \"dim\" is missing"});
  check_rule_refused(kPlain + R"(, "trim": [0, 1])", {"/trim: expected an object"});
  check_rule_refused(kPlain + R"(, "pad": {"dim": 0, "size": -1})", {"/pad/size", "found -1"});
  check_rule_refused(kPlain + R"(, "pad": {"dim": 0, "size": 1, "value": 0})",
                     {"/pad/value: unknown key"});
  check_rule_refused(kPlain + R"(, "transpose": 1)", {"/transpose: expected a list"});
  check_rule_refused(kPlain + R"(, "transpose": [1, -2])", {"/transpose/1", "found -2"});
}

TEST_CASE("an unknown kind is reported with the known ones that are alike") {
  check_rule_refused(kPlain + R"(, "kind": "params")",
                     {"/kind: unknown kind \"params\"", "nearest names are param"});
  check_rule_refused(kPlain + R"(, "kind": ["param", "x"])", {"unknown kind \"x\""});
  check_rule_refused(kPlain + R"(, "kind": [])", {"/kind: expected at least one"});
}

MapRule parsed_2(const std::string& members) {
  return parse_map_rules(R"({"schema": "ttrace.map/2", "candidate": [{)" + members + "}]}",
                         "map.json")
      .candidate.at(0);
}

TEST_CASE("a rule drops tensors, for a reason") {
  const MapRule rule =
      parsed_2(R"("drop": ["rotary", "a.{i}"], "reason": "tables", "kind": "input")");
  CHECK(rule.drops());
  CHECK(rule.drop_reason == "tables");
  CHECK(rule.from.size() == 2);
  CHECK(rule.to.empty());
  CHECK(rule.kinds == std::vector{trace::Kind::kInput});
  const auto refused = [](const std::string& members, std::string_view reason) {
    CAPTURE(members);
    check_refused([&] { parsed_2(members); }, {"map.json: /candidate/0", reason});
  };
  refused(R"("drop": "a")", "the key \"reason\" is missing");
  refused(R"("drop": "a", "reason": "")", "/reason: is empty; say why");
  refused(R"("drop": "a", "reason": 1)", "/reason: expected a string");
  refused(R"("drop": [], "reason": "b")", "/drop: expected at least one");
  refused(R"("drop": "a", "reason": "b", "to": "c")", "/to: unknown key");
  refused(R"("from": "a", "to": "b", "reason": "c")", "/reason: unknown key");
}

TEST_CASE("a rule gives one tensor several names") {
  const MapRule rule = parsed_2(R"("from": "qkv", "to": ["q", "k"], "same": true)");
  CHECK(rule.same);
  CHECK(rule.to.size() == 2);
  const auto refused = [](const std::string& members, std::string_view reason) {
    CAPTURE(members);
    check_refused([&] { parsed_2(members); }, {"map.json: /candidate/0", reason});
  };
  refused(R"("from": "a", "to": "b", "same": true)", "needs several names");
  refused(R"("from": "a", "to": ["b", "c"], "same": false)", "/same: expected true");
  refused(R"("from": ["a", "b"], "to": "c", "same": true)", "in the other side's list");
  refused(kSplit + R"("split": {"dim": 0}, "same": true)", "exclude each other");
}

TEST_CASE("what a starter tells its reader is no rule") {
  const MapRules rules = parse_map_rules(
      R"({"schema": "ttrace.map/2", "candidate": [{"from": "a", "to": "b"}],
          "unmatched": {"candidate": [{"drop": "c", "reason": ""}]}, "ambiguous": [], "notes": []})",
      "map.json");
  CHECK(rules.candidate.size() == 1);
}

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
  CHECK(NamePattern(from).captures() == std::set<std::string>{"i", "j", "w"});
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
}  // namespace ttrace::layout::map_rules_test
