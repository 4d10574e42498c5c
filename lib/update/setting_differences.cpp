#include "update/setting_differences.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <set>
#include <string_view>

#include "base/concat.h"
#include "base/number_text.h"

namespace ttrace::update {
namespace {

using trace::OptimizerGroup;

// As few digits as tell the value, at most nine.
std::string digits(double value) {
  const std::string shorter = base::short_number(value);
  return std::strtod(shorter.c_str(), nullptr) == value ? shorter : base::nine_digits(value);
}

bool same(double a, double b) {
  constexpr double kSinglePrecision = 0x1p-23;
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::abs(a - b) <= kSinglePrecision * std::max(std::abs(a), std::abs(b));
}

std::optional<double> number_of(const OptimizerGroup& group, const std::string& name) {
  const auto found = group.numbers.find(name);
  if (found != group.numbers.end()) return found->second;
  if (name == "weight_decay" || name == "momentum" || name == "dampening") return 0;
  return std::nullopt;
}

bool flag_of(const OptimizerGroup& group, const std::string& name) {
  const auto found = group.switches.find(name);
  return found != group.switches.end() && found->second;
}

bool is_known(const std::string& type) {
  return type == "sgd" || type == "adam" || type == "adamw";
}

bool decays(const OptimizerGroup& group) { return number_of(group, "weight_decay") != 0.0; }

bool same_optimizer(const OptimizerGroup& a, const OptimizerGroup& b) {
  if (a.type == b.type) return true;
  return a.type != "sgd" && b.type != "sgd" && !decays(a) && !decays(b);
}

bool is_plain_sgd(const OptimizerGroup& group) {
  return group.type == "sgd" && number_of(group, "momentum") == 0.0 && !decays(group);
}

std::string words(const std::vector<double>& values) {
  if (values.empty()) return "none";
  std::string text;
  for (const double value : values) text += base::concat(text.empty() ? "" : ", ", digits(value));
  return text;
}

}  // namespace

std::vector<SettingPair> setting_differences(const OptimizerGroup& reference,
                                             const OptimizerGroup& candidate) {
  const bool known = is_known(reference.type) && is_known(candidate.type);
  if (known && !same_optimizer(reference, candidate)) {
    return {{"optimizer", reference.type, candidate.type}};
  }
  if (!known && reference.type != candidate.type) return {};
  std::vector<SettingPair> found;
  if (reference.betas.size() != candidate.betas.size() ||
      !std::equal(reference.betas.begin(), reference.betas.end(), candidate.betas.begin(), same)) {
    found.push_back({"betas", words(reference.betas), words(candidate.betas)});
  }
  std::set<std::string> names;
  std::set<std::string> flags;
  for (const auto* group : {&reference, &candidate}) {
    for (const auto& [name, value] : group->numbers) names.insert(name);
    for (const auto& [name, value] : group->switches) flags.insert(name);
  }
  for (const std::string& name : names) {
    const auto r = number_of(reference, name);
    const auto c = number_of(candidate, name);
    if (name == "updates" && is_plain_sgd(reference) && is_plain_sgd(candidate)) continue;
    if (r && c ? same(*r, *c) : name != "clip_norm") continue;
    found.push_back(
        {name == "updates" ? "update" : name, r ? digits(*r) : "none", c ? digits(*c) : "none"});
  }
  for (const std::string& name : flags) {
    const bool r = flag_of(reference, name);
    if (r == flag_of(candidate, name)) continue;
    found.push_back({name, r ? "set" : "not set", r ? "not set" : "set"});
  }
  std::sort(found.begin(), found.end(),
            [](const SettingPair& a, const SettingPair& b) { return a.name < b.name; });
  return found;
}

}  // namespace ttrace::update
