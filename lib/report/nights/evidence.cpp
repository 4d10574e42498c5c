#include "report/nights/evidence.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/message.h"
#include "report/page/read_parts.h"

namespace ttrace::report {
namespace {

using base::JsonCursor;

// A cause that says only where the error is comes and goes with the noise.
bool says_only_where(std::string_view cause) { return cause == "mask_or_rows"; }

std::vector<std::string> causes_of(const JsonCursor& item) {
  std::vector<std::string> causes;
  if (const auto setting = item.find("setting")) {
    causes.push_back(base::render({"{reference} in the reference and {candidate} in the candidate",
                                   {{"reference", text_at(*setting, "reference")},
                                    {"candidate", text_at(*setting, "candidate")}}}));
  }
  const auto list = item.find("causes");
  if (!list) return causes;
  for (const JsonCursor& cause : list->items()) {
    const std::string name = cause.require("name").as_string();
    if (says_only_where(name)) continue;
    causes.push_back(
        base::render({"{name}[ over {axis}]", {{"name", name}, {"axis", text_at(cause, "axis")}}}));
  }
  return causes;
}

std::vector<std::string> members_of(const JsonCursor& item) {
  std::vector<std::string> members = strings_at(item, item.find("keys") ? "keys" : "members");
  if (members.empty() || item.find("setting")) members = {item.require("id").as_string()};
  return members;
}

// NaN if either is: what is not a number is no small one.
double larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }

double ratio(double error, double allowed) {
  if (allowed > 0) return error / allowed;
  return error == 0 ? 0 : error * std::numeric_limits<double>::infinity();
}

}  // namespace

std::map<std::string, Evidence> evidence_of(const JsonCursor& root) {
  std::map<std::string, Evidence> found;
  std::map<std::string, Evidence> of_group;
  std::vector<std::pair<std::string, std::string>> untold;  // member, group
  const auto frontier = root.find("frontier");
  for (const JsonCursor& item : (frontier ? *frontier : root.require("findings")).items()) {
    const std::string group = text_at(item, "group");
    if (!item.find("causes") && !item.find("setting")) {
      for (const std::string& member : members_of(item)) untold.emplace_back(member, group);
      continue;
    }
    Evidence evidence{causes_of(item), counts_at(item, "ranks")};
    std::sort(evidence.ranks.begin(), evidence.ranks.end());
    if (!group.empty()) of_group[group].causes = evidence.causes;
    for (const std::string& member : members_of(item)) found.emplace(member, evidence);
  }
  for (const auto& [member, group] : untold) {
    const auto told = of_group.find(group);
    if (told != of_group.end()) found.emplace(member, told->second);
  }
  return found;
}

std::set<std::string> suspects_of(const JsonCursor& root) {
  std::set<std::string> ids;
  if (const auto suspects = root.find("suspects")) {
    for (const JsonCursor& one : suspects->items()) ids.insert(one.require("id").as_string());
  }
  return ids;
}

bool is_finite_on_one_side(const JsonCursor& result) {
  const auto nonfinite = result.find("nonfinite");
  return nonfinite && number_at(*nonfinite, "different").value_or(0) > 0;
}

std::optional<double> furthest_use(const JsonCursor& result) {
  std::optional<double> used = number_at(result, "used");
  if (!used) return std::nullopt;
  if (const auto drift = number_at(result, "replica_drift")) {
    used = larger(*used, ratio(*drift, number_at(result, "allowed").value_or(0)));
  }
  if (const auto slices = result.find("slices")) {
    for (const JsonCursor& slice : slices->items()) {
      used = larger(*used, ratio(number_at(slice, "error").value_or(0),
                                 number_at(slice, "allowed").value_or(0)));
    }
  }
  return used;
}

}  // namespace ttrace::report
