#include "report/headline.h"

#include <algorithm>
#include <cmath>

#include "base/display_limits.h"
#include "base/text.h"
#include "report/cause_sentences.h"
#include "report/place_words.h"

namespace ttrace::report {
namespace {

using base::concat;
using base::short_number;
using localize::PlaceKind;

// Where a sentence puts the fault; empty where what it is about says so: a module's own tensor.
std::string describe_faulty_code(const ToldFinding& finding) {
  switch (finding.place.kind) {
    case PlaceKind::kModule:
      return "";
    case PlaceKind::kSynchronisation:
      return "in the gradient synchronisation";
    case PlaceKind::kOptimizer:
      return "in the optimizer";
    case PlaceKind::kBetween:
      break;
  }
  const std::string code = finding.called_at.empty() ? "" : concat(" (", finding.called_at, ")");
  if (finding.made_from.size() == 1) {
    return concat("between ", finding.made_from.front(), " and there", code);
  }
  return concat("between the modules of ", finding.place.of, code);
}

answer::CauseValues common_values(const ToldFinding& finding) {
  answer::CauseValues values{{"whose", describe_subject(finding.tensors)},
                             {"members", std::uint64_t{finding.tensors.names.size()}},
                             {"place", describe_faulty_code(finding)},
                             {"phase", std::string(describe_phase(finding.phase))},
                             {"step", finding.tensors.step},
                             {"reason", finding.reason}};
  if (finding.cause == nullptr || finding.cause->axis.empty()) return values;
  values.emplace_back("axis", finding.cause->axis);
  for (const trace::MeshAxis& axis : finding.mesh) {
    if (axis.name == finding.cause->axis) values.emplace_back("over_ranks", axis.size);
  }
  return values;
}

// After updates that were not judged. What is wrong stands on the screen: with both, the sentence
// would be cut.
constexpr std::string_view kFirstAfter = ": {phase}, step {step}[, {place}]";

// Of a gradient that the candidate lacks and that nothing says it failed to record.
constexpr std::string_view kNeverReached = "never reached";

bool is_never_reached(const comparison::CompareReport& report, const trace::TensorKey& key) {
  const auto is_gradient = [](trace::Kind kind) {
    return kind == trace::Kind::kParamGrad || kind == trace::Kind::kMainGrad ||
           kind == trace::Kind::kGradOutput;
  };
  return is_gradient(key.kind) &&
         std::ranges::none_of(report.results, [&](const comparison::TensorComparison& other) {
           const bool same = other.key.name == key.name && other.key.step == key.step;
           const bool lacks = other.outcome == judge::Outcome::kMissing && !other.incomplete;
           return same && is_gradient(other.key.kind) && !lacks;
         });
}

// What is said where no cause is known, by outcome.
std::string_view template_of(std::string_view outcome) {
  if (outcome == "replica_conflict") {
    return "the copies of {whose} differ, {phase}, step {step}[, {place}]; no known cause fits";
  }
  if (outcome == "broken") return "{whose}: {reason}[, {place}]";
  if (outcome == "missing") return "the candidate lacks {whose}";
  if (outcome == kNeverReached) {
    return "the candidate lacks {whose}: no gradient reached {members?it|them}";
  }
  if (outcome == "extra") return "the candidate alone has {whose}";
  if (outcome == "incomparable") return "{whose} cannot be compared: {reason}";
  return "first wrong {members?is|are} {whose}, {phase}, step {step}[, {place}]; no known cause "
         "fits";
}

bool is_made_of(const comparison::TensorComparison& result) {
  return result.outcome == judge::Outcome::kMatch && trace::is_module_value(result.key.kind);
}

// What the finding was made from, the nearest first: values of modules that match.
std::vector<std::string> describe_made_from(const comparison::CompareReport& report,
                                            const comparison::ComparedFinding& finding) {
  std::vector<std::string> said;
  for (auto at = finding.depends_on.rbegin(); at != finding.depends_on.rend(); ++at) {
    const comparison::TensorComparison& result = report.results[*at];
    if (!is_made_of(result)) continue;
    AlikeTensors one;
    one.kind = result.key.kind;
    one.names = {result.key.name};
    std::string words = describe_subject(one);
    if (std::find(said.begin(), said.end(), words) == said.end()) said.push_back(std::move(words));
  }
  return said;
}

std::string sentence_with(const ToldFinding& finding, const answer::CauseValues& values) {
  if (finding.cause != nullptr) return sentence_of(*finding.cause, values);
  if (!finding.updates.empty()) {
    return base::concat(finding.updates, *filled(kFirstAfter, values));
  }
  return filled(template_of(finding.outcome), values)
      .value_or(concat("first wrong is ", base::printable(describe_subject(finding.tensors))));
}

template <typename T>
const T* value_of(const answer::Cause& cause, std::string_view name) {
  for (const auto& [of, value] : cause.values) {
    if (of == name) return std::get_if<T>(&value);
  }
  return nullptr;
}

// The causes of a group, whose shown finding has one.
answer::Cause cause_told_of(const comparison::CompareReport& report, const FindingGroup& group) {
  std::vector<const answer::Cause*> all;
  for (const std::size_t f : group.findings) {
    if (!report.findings[f].causes.empty()) all.push_back(&report.findings[f].causes.front());
  }
  answer::Cause told = with_all_factors(report.findings[group.shown].causes.front(), all);
  const auto differs = [&told](const answer::Cause* one) {
    const auto* const which = value_of<std::string>(told, "which");
    const auto* const other = value_of<std::string>(*one, "which");
    return which != nullptr && other != nullptr && *which != *other;
  };
  if (std::ranges::any_of(all, differs)) {
    const comparison::ComparedFinding& shown = report.findings[group.shown];
    for (auto& [name, value] : told.values) {
      if (name != "which") continue;
      value = concat(std::get<std::string>(value), " in ", report.results[shown.result].key.name);
    }
  }
  return told;
}

}  // namespace

answer::Cause with_all_factors(answer::Cause shown, const std::vector<const answer::Cause*>& all) {
  constexpr double kSameFactor = 0.1;
  const auto* const factor_shown = value_of<double>(shown, "factor");
  if (factor_shown == nullptr) return shown;
  double least = *factor_shown;
  double most = *factor_shown;
  for (const answer::Cause* const one : all) {
    const auto* const factor = value_of<double>(*one, "factor");
    if (factor == nullptr) continue;
    least = std::min(least, *factor);
    most = std::max(most, *factor);
  }
  if (most - least <= kSameFactor * std::abs(*factor_shown - 1)) return shown;
  for (auto& [name, value] : shown.values) {
    if (name == "times") value = concat(short_number(least), " to ", short_number(most));
  }
  return shown;
}

std::string sentence_of(const ToldFinding& finding) {
  const answer::CauseValues values = common_values(finding);
  std::string sentence = sentence_with(finding, values);
  if (sentence.size() <= base::kShown.place) return sentence;
  // Where there is no room for it, the place stands on the screen alone.
  answer::CauseValues fewer = values;
  std::erase_if(fewer, [](const auto& value) { return value.first == "place"; });
  return sentence_with(finding, fewer);
}

Headlines::Headlines(const comparison::CompareReport& report) : report_(report) {
  for (const comparison::TensorComparison& one : report.results) {
    if (one.outcome != judge::Outcome::kExtra) all_[{one.key.step, one.key.kind}].add(one.key);
    if (one.outcome == judge::Outcome::kNotJudged && one.spread) ++spread_updates_[one.key.step];
  }
}

const AllOfKind* Headlines::all_of(std::uint64_t step, trace::Kind kind) const {
  const auto found = all_.find({step, kind});
  return found == all_.end() ? nullptr : &found->second;
}

bool Headlines::is_first_step(std::uint64_t step) const {
  return report_.reference.steps.empty() || step == report_.reference.steps.front();
}

std::string Headlines::describe_updates_before(std::uint64_t step) const {
  if (spread_updates_.empty() || spread_updates_.begin()->first >= step) return "";
  const auto& [updated, count] = *spread_updates_.begin();
  const AllOfKind* const all = all_of(updated, trace::Kind::kParamAfterStep);
  return concat(count, " of ", base::plural(all == nullptr ? count : all->names(), "update"),
                " of step ", updated, count == 1 ? " is" : " are",
                " off without a wrong gradient, and cannot be replayed; first wrong after ",
                count == 1 ? "it" : "them");
}

std::string Headlines::of(const FindingGroup& group) const {
  const comparison::ComparedFinding& shown = report_.findings[group.shown];
  const comparison::TensorComparison& result = report_.results[shown.result];
  if (shown.members.size() > 1) {
    const std::string whole = concat(base::printable(shown.one_sided_group), " (",
                                     base::plural(shown.members.size(), "tensor"), ")");
    if (result.outcome == judge::Outcome::kExtra) {
      return concat("the candidate alone has ", whole);
    }
    if (shown.causes.empty()) return concat("the candidate lacks ", whole);
  }
  ToldFinding told;
  told.tensors.kind = result.key.kind;
  told.tensors.step = result.key.step;
  told.tensors.is_first_step = is_first_step(result.key.step);
  for (const std::size_t f : group.findings) {
    told.tensors.add(report_.results[report_.findings[f].result].key);
  }
  told.tensors.all = all_of(result.key.step, result.key.kind);
  told.phase = localize::phase_of(result.key);
  told.place = localize::place_of(report_, shown);
  told.called_at = shown.called_at;
  std::optional<answer::Cause> cause;
  if (!shown.causes.empty()) cause = cause_told_of(report_, group);
  told.cause = cause ? &*cause : nullptr;
  told.outcome = outcome_name(result.outcome);
  if (result.outcome == judge::Outcome::kMissing && is_never_reached(report_, result.key)) {
    told.outcome = kNeverReached;
  }
  told.reason = result.reason;
  told.made_from = describe_made_from(report_, shown);
  told.mesh = report_.candidate.mesh;
  if (told.cause == nullptr && result.outcome == judge::Outcome::kDiverged &&
      group.findings.front() == 0) {
    told.updates = describe_updates_before(result.key.step);
  }
  return sentence_of(told);
}

std::string Headlines::of(const comparison::SettingDifference& setting) const {
  AlikeTensors parameters;
  parameters.kind = trace::Kind::kParam;
  parameters.step = setting.step;
  parameters.is_first_step = is_first_step(setting.step);
  parameters.names.insert(setting.parameters.begin(), setting.parameters.end());
  parameters.all = all_of(setting.step, trace::Kind::kParamAfterStep);
  if (setting.name == comparison::kParameterGroup) {
    const bool lacks = setting.candidate == "none";
    return *filled(
        "the optimizer of the {side} has no group with {whose}; that of the {other} does",
        {{"side", lacks ? "candidate" : "reference"},
         {"whose", describe_subject(parameters)},
         {"other", lacks ? "reference" : "candidate"}});
  }
  return *filled(
      "the optimizers differ: {name} is {candidate} instead of {reference}[ for {whose}]",
      {{"name", setting.name},
       {"candidate", setting.candidate},
       {"reference", setting.reference},
       {"whose", parameters.names.empty() ? std::string() : describe_subject(parameters)}});
}

std::string Headlines::of(const Listed& listed, const std::vector<FindingGroup>& groups) const {
  return listed.setting ? of(report_.settings[*listed.setting]) : of(groups[listed.group]);
}

}  // namespace ttrace::report
