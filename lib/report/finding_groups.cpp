#include "report/finding_groups.h"

#include <map>
#include <set>
#include <tuple>

#include "base/display_limits.h"
#include "base/text.h"
#include "judge/slices.h"
#include "localize/phase.h"

namespace ttrace::report {

namespace {

using base::concat;

bool is_of_parameter(trace::Kind kind) {
  return kind == trace::Kind::kParam || kind == trace::Kind::kParamGrad ||
         kind == trace::Kind::kMainGrad || kind == trace::Kind::kParamAfterStep;
}

std::string_view word_of(judge::Outcome outcome) {
  return outcome == judge::Outcome::kExtra ? "extra" : "missing";
}

using GroupKey = std::tuple<std::uint64_t, trace::Kind, judge::Outcome, std::string, std::string>;

GroupKey group_key(const comparison::ComparedFinding& finding,
                   const comparison::TensorComparison& result) {
  std::string cause;
  std::string pattern;
  if (finding.causes.empty()) {
    pattern = judge::name_pattern(result.key.name);
  } else {
    cause = concat(finding.causes.front().name, "/", finding.causes.front().axis);
  }
  return {result.key.step, result.key.kind, result.outcome, cause, pattern};
}

// The error, or the distance of replicas, in units of what is allowed.
double distance_of(const comparison::TensorComparison& result) {
  if (!result.comparison) return 0;
  if (result.outcome != judge::Outcome::kReplicaConflict)
    return comparison::used_share(*result.comparison);
  const double allowed = result.comparison->tolerance.allowed_norm();
  const double apart = result.comparison->measurement.replicas->distance_norm;
  return allowed > 0 ? apart / allowed : apart;
}

// The patterns of the names. Several parameters of one module become one pattern
// ("layers.*.norm1.*").
std::vector<std::string> patterns_of(const std::set<std::string>& names, bool parameters) {
  std::set<std::string> patterns;
  for (const std::string& name : names) patterns.insert(judge::name_pattern(name));
  if (!parameters) return {patterns.begin(), patterns.end()};
  std::map<std::string, std::vector<std::string>> by_module;
  for (const std::string& pattern : patterns) {
    const std::size_t dot = pattern.rfind('.');
    by_module[dot == std::string::npos ? "" : pattern.substr(0, dot)].push_back(pattern);
  }
  std::vector<std::string> found;
  for (const auto& [module, of_module] : by_module) {
    const bool several = of_module.size() > 1 && !module.empty();
    if (several) found.push_back(module + ".*");
    if (!several) found.insert(found.end(), of_module.begin(), of_module.end());
  }
  return found;
}

std::string listed_patterns(const std::vector<std::string>& patterns, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < patterns.size() && i < most; ++i) {
    text += concat(i > 0 ? ", " : "", patterns[i]);
  }
  if (patterns.size() > most) text += concat(" and ", patterns.size() - most, " more");
  return text;
}

void describe(const comparison::CompareReport& report, FindingGroup& group) {
  std::set<std::string> names;
  std::set<std::string> classes;
  std::set<std::optional<std::uint64_t>> microbatches;
  double furthest = -1;
  const comparison::TensorComparison& first =
      report.results[report.findings[group.findings.front()].result];
  for (const std::size_t f : group.findings) {
    const comparison::TensorComparison& result = report.results[report.findings[f].result];
    names.insert(result.key.name);
    classes.insert(report.findings[f].class_name);
    microbatches.insert(result.key.microbatch);
    if (distance_of(result) > furthest) {
      furthest = distance_of(result);
      group.shown = f;
    }
  }
  const std::vector<std::string> patterns = patterns_of(names, is_of_parameter(first.key.kind));
  const std::string kind(kind_name(first.key.kind));
  const bool one_class = classes.size() == 1 && !classes.begin()->empty();
  group.id = concat("group:", first.key.step, "/", phase_name(localize::phase_of(first.key)), "/",
                    kind, "/",
                    one_class            ? *classes.begin()
                    : classes.size() > 1 ? "*"
                                         : "-");
  const std::string of_class = one_class ? *classes.begin() + " " : "";
  const char* what = is_of_parameter(first.key.kind) ? "parameters" : "tensors";
  const std::size_t batches = microbatches.size();
  group.title = names.size() == 1 ? concat(kind, " of ", *names.begin())
                                  : concat(kind, " of ", names.size(), " ", of_class, what, " (",
                                           listed_patterns(patterns, base::kShown.names), ")");
  if (batches > 1) group.title += concat(" in ", batches, " micro-batches");
}

}  // namespace

std::vector<FindingGroup> group_findings(const comparison::CompareReport& report) {
  std::vector<FindingGroup> groups;
  std::map<GroupKey, std::size_t> known;
  for (std::size_t f = 0; f < report.findings.size(); ++f) {
    const comparison::ComparedFinding& finding = report.findings[f];
    const comparison::TensorComparison& result = report.results[finding.result];
    if (finding.members.size() > 1) {
      groups.push_back({concat("group:", result.key.step, "/-/", word_of(result.outcome), "/",
                               finding.one_sided_group, "/0/0"),
                        {f},
                        f,
                        ""});
      continue;
    }
    const auto [at, fresh] = known.emplace(group_key(finding, result), groups.size());
    if (fresh) groups.push_back({"", {}, f, ""});
    groups[at->second].findings.push_back(f);
  }
  std::map<std::string, std::size_t> same;
  for (FindingGroup& group : groups) {
    if (!group.id.empty()) continue;
    describe(report, group);
    const std::size_t number = ++same[group.id];
    if (number > 1) group.id += concat("~", number);
  }
  return groups;
}

std::vector<std::uint64_t> ranks_of(const comparison::CompareReport& report,
                                    const FindingGroup& group) {
  std::set<std::uint64_t> ranks;
  for (const std::size_t f : group.findings) {
    ranks.insert(report.findings[f].ranks.begin(), report.findings[f].ranks.end());
  }
  return {ranks.begin(), ranks.end()};
}

std::string id_of(const comparison::SettingDifference& setting) {
  // A setting may differ in several ways in one step, each for other parameters.
  return concat("setting:", setting.step, "/", setting.name, "/",
                setting.parameters.empty() ? std::string("-") : setting.parameters.front());
}

std::vector<Listed> listed(const comparison::CompareReport& report,
                           const std::vector<FindingGroup>& groups) {
  std::vector<Listed> list;
  std::size_t setting = 0;
  const auto add_settings_before = [&](const comparison::TensorComparison* finding) {
    for (; setting < report.settings.size(); ++setting) {
      const std::uint64_t step = report.settings[setting].step;
      const bool before = finding == nullptr || finding->key.step > step ||
                          (finding->key.step == step &&
                           localize::phase_of(finding->key) >= localize::Phase::kOptimizer);
      if (!before) return;
      list.push_back({setting, 0});
    }
  };
  for (std::size_t g = 0; g < groups.size(); ++g) {
    add_settings_before(&report.results[report.findings[groups[g].findings.front()].result]);
    list.push_back({std::nullopt, g});
  }
  add_settings_before(nullptr);
  return list;
}

}  // namespace ttrace::report
