#include "layout/map_rules.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace ttrace::layout {
namespace {

constexpr std::size_t kMostCaptures = 8;
constexpr std::string_view kAnything = "...";
constexpr const char* kValue = "[]";

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

using base::JsonCursor;

std::vector<NamePattern> patterns(const JsonCursor& rule, std::string_view key) {
  std::vector<NamePattern> found;
  for (const std::string& text : one_or_more(rule, key)) {
    try {
      found.emplace_back(text);
    } catch (const base::InputError& error) {
      throw rule.require(key).error(error.what());
    }
  }
  return found;
}

Resize resize_from(const JsonCursor& object) {
  object.allow_keys({"dim", "size"});
  return {object.require("dim").as_count(), object.require("size").as_count()};
}

// The captures of a match must determine every name that the rule makes, and which whole each of
// several tensors belongs to.
void check_captures(const JsonCursor& json, const MapRule& rule) {
  const std::set<std::string>& known = rule.from[0].captures();
  for (const NamePattern& from : rule.from) {
    if (from.captures() == known) continue;
    throw json.error("the patterns of \"from\" have different captures: ",
                     base::printable(rule.from[0].text()), " and ", base::printable(from.text()));
  }
  for (const NamePattern& to : rule.to) {
    for (const std::string& capture : to.captures()) {
      if (known.contains(capture)) continue;
      throw json.error("{", base::printable(capture), "} of \"to\" is not captured by \"from\"");
    }
  }
}

constexpr std::string_view kSchema = "ttrace.map/2";

MapRule dropping_rule(const JsonCursor& json) {
  json.allow_keys({"drop", "reason", "kind"});
  MapRule rule;
  rule.pointer = json.pointer();
  rule.from = patterns(json, "drop");
  rule.kinds = kinds_of(json);
  const JsonCursor reason = json.require("reason");
  rule.drop_reason = reason.as_string();
  if (rule.drop_reason.empty()) {
    throw reason.error("is empty; say why the tensors are left out, so that a reader can judge it");
  }
  return rule;
}

// One tensor that the other side has under several names.
void check_same(const JsonCursor& json, const MapRule& rule) {
  if (rule.from.size() > 1) {
    throw json.error(
        "\"same\" is for one tensor under several names; where this side has the several names, "
        "give the rule in the other side's list, from its one name to these");
  }
  if (rule.to.size() < 2) throw json.error("\"same\" needs several names in \"to\"");
  for (const std::string_view other : {"concat", "split"}) {
    if (json.find(other)) throw json.error("\"same\" and \"", other, "\" exclude each other");
  }
}

MapRule rule_from(const JsonCursor& json) {
  if (json.find("drop")) return dropping_rule(json);
  json.allow_keys({"from", "to", "kind", "concat", "split", "same", "trim", "pad", "transpose"});
  MapRule rule;
  rule.pointer = json.pointer();
  rule.from = patterns(json, "from");
  rule.to = patterns(json, "to");
  rule.kinds = kinds_of(json);
  const auto concat = json.find("concat");
  const auto split = json.find("split");
  if (const auto same = json.find("same")) {
    if (!same->as_bool()) throw same->error("expected true, or no such member");
    rule.same = true;
    check_same(json, rule);
  }
  if (rule.from.size() > 1 && rule.to.size() > 1) {
    throw json.error("several tensors to several; one side must be one");
  }
  if (concat.has_value() != (rule.from.size() > 1)) {
    throw json.error(concat ? "\"concat\" needs several patterns in \"from\""
                            : "several tensors become one by \"concat\": {\"dim\": ...}");
  }
  if (split.has_value() != (rule.to.size() > 1 && !rule.same)) {
    throw json.error(split ? "\"split\" needs several names in \"to\""
                           : "one tensor becomes several by \"split\": {\"dim\": ...}, or stands "
                             "for each of them by \"same\": true");
  }
  if (const auto& cut = concat ? concat : split) {
    if (concat) {
      cut->allow_keys({"dim", "groups"});
    } else {
      cut->allow_keys({"dim", "groups", "sizes"});
    }
    rule.dim = cut->require("dim").as_count();
    if (const auto groups = cut->find("groups")) {
      rule.groups = groups->as_count();
      if (rule.groups == 0) throw groups->error("0 groups");
    }
    if (const auto sizes = cut->find("sizes")) {
      rule.sizes = sizes->as_counts();
      if (rule.sizes.size() != rule.to.size()) {
        throw sizes->error(rule.sizes.size(), " sizes for ", rule.to.size(), " tensors");
      }
    }
  }
  if (const auto trim = json.find("trim")) rule.trim = resize_from(*trim);
  if (const auto pad = json.find("pad")) rule.pad = resize_from(*pad);
  if (const auto axes = json.find("transpose")) rule.transpose = axes->as_counts();
  check_captures(json, rule);
  return rule;
}

std::vector<MapRule> rules_from(const JsonCursor& root, std::string_view side) {
  std::vector<MapRule> rules;
  if (const auto list = root.find(side)) {
    for (const JsonCursor& json : list->items()) rules.push_back(rule_from(json));
  }
  return rules;
}

}  // namespace

NamePattern::NamePattern(const std::string& text) : text_(text) {
  const auto refuse = [&text](const auto&... why) {
    return base::input_error("the pattern ", base::printable(text), " ", why...);
  };
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t open = text.find_first_of("{}", at);
    if (open != at) {
      segments_.push_back(
          {text.substr(at, open == std::string::npos ? open : open - at), "", false});
      if (open == std::string::npos) break;
    }
    const std::size_t close = text.find_first_of("{}", open + 1);
    if (text[open] == '}' || close == std::string::npos || text[close] == '{') {
      throw refuse("has a brace without its partner");
    }
    std::string name = text.substr(open + 1, close - open - 1);
    const bool dots = name.ends_with(kAnything);
    if (dots) name.resize(name.size() - kAnything.size());
    if (name.empty() || !std::all_of(name.begin(), name.end(), is_word)) {
      throw refuse("has a capture whose name is not of letters, digits and underscores");
    }
    if (!names_.insert(name).second) {
      throw refuse("has two captures {", base::printable(name), "}");
    }
    segments_.push_back({"", std::move(name), dots});
    at = close + 1;
  }
  if (names_.size() > kMostCaptures) throw refuse("has more than ", kMostCaptures, " captures");
  if (segments_.empty()) throw base::input_error("an empty pattern");
}

bool NamePattern::match_from(std::size_t segment, std::string_view rest, Captures& captures,
                             Failures& failures) const {
  if (segment == segments_.size()) return rest.empty();
  if (failures.contains({segment, rest.size()})) return false;
  const Segment& here = segments_[segment];
  if (here.capture.empty()) {
    return rest.starts_with(here.literal) &&
           match_from(segment + 1, rest.substr(here.literal.size()), captures, failures);
  }
  for (std::size_t length = 1; length <= rest.size(); ++length) {
    if (!here.dots && rest[length - 1] == '.') break;
    if (match_from(segment + 1, rest.substr(length), captures, failures)) {
      captures[here.capture] = rest.substr(0, length);
      return true;
    }
  }
  failures.emplace(segment, rest.size());
  return false;
}

std::optional<NamePattern::Captures> NamePattern::match(std::string_view name) const {
  const auto matched = [this](std::string_view text) -> std::optional<Captures> {
    Captures captures;
    Failures failures;
    if (!match_from(0, text, captures, failures)) return std::nullopt;
    return captures;
  };
  const std::string_view module = trace::module_of_value(name);
  if (module.size() < name.size()) {
    if (auto captures = matched(module)) {
      captures->emplace(kValue, name.substr(module.size()));
      return captures;
    }
  }
  return matched(name);
}

std::string NamePattern::filled(const Captures& captures) const {
  std::string name;
  for (const Segment& segment : segments_) {
    name += segment.capture.empty() ? segment.literal : captures.at(segment.capture);
  }
  const auto value = captures.find(kValue);
  return value == captures.end() ? name : name + value->second;
}

std::vector<std::string> one_or_more(const base::JsonCursor& rule, std::string_view key) {
  const base::JsonCursor value = rule.require(key);
  if (value.is_string()) return {value.as_string()};
  std::vector<std::string> values = value.as_strings();
  if (values.empty()) throw value.error("expected at least one");
  return values;
}

std::vector<trace::Kind> kinds_of(const base::JsonCursor& rule) {
  const auto value = rule.find("kind");
  if (!value) return {};
  std::vector<trace::Kind> kinds;
  for (const std::string& name : one_or_more(rule, "kind")) {
    const auto kind = trace::parse_kind(name);
    if (!kind) {
      std::vector<std::string> known;
      for (const trace::Kind each : trace::kAllKinds) known.emplace_back(kind_name(each));
      throw value->error("unknown kind \"", base::printable(name), "\"",
                         base::nearest_hint(name, known));
    }
    kinds.push_back(*kind);
  }
  return kinds;
}

bool is_of(const std::vector<trace::Kind>& kinds, trace::Kind kind) {
  return kinds.empty() || std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

std::optional<RuleMatch> match_of(const std::vector<MapRule>& rules, std::string_view name,
                                  const std::vector<trace::Kind>& kinds) {
  for (std::size_t r = 0; r < rules.size(); ++r) {
    const bool concerned = std::any_of(
        kinds.begin(), kinds.end(), [&](trace::Kind kind) { return is_of(rules[r].kinds, kind); });
    if (!concerned) continue;
    for (std::size_t p = 0; p < rules[r].from.size(); ++p) {
      if (auto captures = rules[r].from[p].match(name)) {
        return RuleMatch{r, p, std::move(*captures)};
      }
    }
  }
  return std::nullopt;
}

MapRules parse_map_rules(std::string_view text, const std::string& file) {
  const base::JsonDocument document(text, file);
  const JsonCursor root = document.root();
  root.require("schema").require_format(kSchema);
  // `--map-starter` writes the last three for people.
  root.allow_keys({"schema", "reference", "candidate", "unmatched", "ambiguous", "notes"});
  // A starter for two runs of the same names has an empty list.
  if (!root.find("reference") && !root.find("candidate")) {
    throw root.error("no rules; expected a list \"candidate\" or \"reference\"");
  }
  return {file, rules_from(root, "reference"), rules_from(root, "candidate")};
}

}  // namespace ttrace::layout
