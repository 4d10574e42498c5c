#include <algorithm>

#include "base/strict_json.h"
#include "base/text.h"
#include "layout/map_rules.h"

namespace ttrace::layout {
namespace {

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

std::vector<std::string> sorted_captures(const NamePattern& pattern) {
  std::vector<std::string> names = pattern.captures();
  std::sort(names.begin(), names.end());
  return names;
}

// The captures of a match must determine every name that the rule makes, and to which whole each of
// several tensors belongs.
void check_captures(const JsonCursor& json, const MapRule& rule) {
  const std::vector<std::string> known = sorted_captures(rule.from[0]);
  for (const NamePattern& from : rule.from) {
    if (sorted_captures(from) == known) continue;
    throw json.error("the patterns of \"from\" have different captures: ",
                     base::printable(rule.from[0].text()), " and ", base::printable(from.text()));
  }
  for (const NamePattern& to : rule.to) {
    for (const std::string& capture : to.captures()) {
      if (std::find(known.begin(), known.end(), capture) != known.end()) continue;
      throw json.error("{", base::printable(capture), "} of \"to\" is not captured by \"from\"");
    }
  }
}

constexpr std::string_view kVersion1 = "ttrace.map/1";
constexpr std::string_view kVersion2 = "ttrace.map/2";

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

MapRule rule_from(const JsonCursor& json, std::string_view version) {
  if (version != kVersion1) {
    if (json.find("drop")) return dropping_rule(json);
    json.allow_keys({"from", "to", "kind", "concat", "split", "same", "trim", "pad", "transpose"});
  } else {
    for (const std::string_view later : {"drop", "same"}) {
      if (const auto member = json.find(later)) {
        throw member->error("is of \"", kVersion2, "\"; change the file's \"schema\" to that");
      }
    }
    json.allow_keys({"from", "to", "kind", "concat", "split", "trim", "pad", "transpose"});
  }
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
      for (const JsonCursor& item : sizes->items()) rule.sizes.push_back(item.as_count());
      if (rule.sizes.size() != rule.to.size()) {
        throw sizes->error(rule.sizes.size(), " sizes for ", rule.to.size(), " tensors");
      }
    }
  }
  if (const auto trim = json.find("trim")) rule.trim = resize_from(*trim);
  if (const auto pad = json.find("pad")) rule.pad = resize_from(*pad);
  if (const auto axes = json.find("transpose")) {
    for (const JsonCursor& item : axes->items()) rule.transpose.push_back(item.as_count());
  }
  check_captures(json, rule);
  return rule;
}

std::vector<MapRule> rules_from(const JsonCursor& root, std::string_view side,
                                std::string_view version) {
  std::vector<MapRule> rules;
  if (const auto list = root.find(side)) {
    for (const JsonCursor& json : list->items()) rules.push_back(rule_from(json, version));
  }
  return rules;
}

}  // namespace

MapRules parse_map_rules(std::string_view text, const std::string& file) {
  const base::JsonDocument document(text, file);
  const JsonCursor root = document.root();
  const JsonCursor schema = root.require("schema");
  const std::string version = schema.as_string();
  if (version != kVersion1 && version != kVersion2) {
    throw schema.error("this is \"", base::printable(version), "\", expected \"", kVersion2, "\"");
  }
  if (version == kVersion1) {
    root.allow_keys({"schema", "reference", "candidate"});
  } else {
    // `--map-starter` writes the last three for people.
    root.allow_keys({"schema", "reference", "candidate", "unmatched", "ambiguous", "notes"});
  }
  MapRules rules{file, rules_from(root, "reference", version),
                 rules_from(root, "candidate", version)};
  if (rules.reference.empty() && rules.candidate.empty()) {
    throw root.error("no rules; expected a list \"candidate\" or \"reference\"");
  }
  return rules;
}

}  // namespace ttrace::layout
