#include "audit/verdict.h"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>

#include "audit/recording_line.h"
#include "base/display_limits.h"
#include "base/message.h"
#include "base/text.h"
#include "judge/slices.h"

namespace ttrace::audit {

using base::render;
using trace::Kind;

namespace {

constexpr double kLeastCoverage = 0.5;
constexpr double kMostUnjudgedGradients = 0.1;  // of the parameters that have one

bool is_of_parameter(Kind kind) {
  return kind == Kind::kParam || kind == Kind::kParamGrad || kind == Kind::kMainGrad ||
         kind == Kind::kParamAfterStep;
}

bool is_gradient(Kind kind) { return kind == Kind::kParamGrad || kind == Kind::kMainGrad; }

std::string title_of(const std::vector<AuditedTensor>& tensors,
                     const std::vector<std::size_t>& members) {
  std::set<std::string> names;
  std::set<std::string> patterns;
  std::set<std::optional<std::uint64_t>> microbatches;
  std::set<std::uint64_t> steps;
  for (const std::size_t i : members) {
    const trace::TensorKey& key = tensors[i].key;
    names.insert(key.name);
    patterns.insert(judge::name_pattern(key.name));
    microbatches.insert(key.microbatch);
    steps.insert(key.step);
  }
  const Kind kind = tensors[members.front()].key.kind;
  std::string list;
  std::size_t listed = 0;
  for (const std::string& pattern : patterns) {
    if (listed++ == base::kShown.few_names) {
      list += base::concat(" and ", patterns.size() - base::kShown.few_names, " more");
      break;
    }
    list += base::concat(list.empty() ? "" : ", ", pattern);
  }
  auto message = base::Message{
      names.size() == 1 ? "{kind} of {name}[ in {microbatches} micro-batches][, in {steps} steps]"
      : is_of_parameter(kind) ? "{kind} of {count} parameters ({names})[ in {microbatches} "
                                "micro-batches][, in {steps} steps]"
                              : "{kind} of {count} tensors ({names})[ in {microbatches} "
                                "micro-batches][, in {steps} steps]",
      {{"kind", std::string(kind_name(kind))},
       {"name", *names.begin()},
       {"count", names.size()},
       {"names", list}}};
  if (microbatches.size() > 1) message.values.emplace_back("microbatches", microbatches.size());
  if (steps.size() > 1) message.values.emplace_back("steps", steps.size());
  return render(message);
}

// What a tensor that is broken shows.
AuditFinding finding_of(const std::vector<AuditedTensor>& tensors, std::size_t i) {
  const AuditedTensor& tensor = tensors[i];
  AuditFinding finding;
  finding.shown = i;
  finding.class_name = tensor.class_name;
  finding.called_at = tensor.called_at;
  finding.ranks = tensor.broken_check()->ranks;
  finding.causes = tensor.causes;
  finding.rejected = tensor.rejected;
  return finding;
}

std::vector<AuditFinding> group(const std::vector<AuditedTensor>& tensors) {
  using GroupKey = std::tuple<Kind, std::string, std::string, std::string>;
  std::vector<AuditFinding> findings;
  std::map<GroupKey, std::size_t> known;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const AuditedTensor& tensor = tensors[i];
    if (tensor.outcome != AuditOutcome::kBroken || tensor.downstream) continue;
    const std::string cause = tensor.causes.empty() ? ""
                                                    : base::concat(tensor.causes.front().name, "/",
                                                                   tensor.causes.front().axis);
    const GroupKey key{
        tensor.key.kind, tensor.broken_check()->operation, cause,
        cause.empty() && travelling(tensor).empty() ? judge::name_pattern(tensor.key.name) : ""};
    const auto [at, fresh] = known.emplace(key, findings.size());
    if (fresh) findings.push_back(finding_of(tensors, i));
    findings[at->second].members.push_back(i);
  }
  for (AuditFinding& finding : findings) finding.title = title_of(tensors, finding.members);
  return findings;
}

// What a step must have for its audit to say anything, and what one of it is called.
constexpr std::pair<Kind, std::string_view> kNeeded[] = {
    {Kind::kLoss, "loss"}, {Kind::kGradNorm, "gradient norm"}, {Kind::kMainGrad, "main gradient"}};

// Why tensors that must be judged were not, or empty.
std::string why_not_judged(const AuditReport& report) {
  for (const auto& [kind, noun] : kNeeded) {
    std::uint64_t unjudged = 0;
    std::string reason;
    for (const AuditedTensor& tensor : report.tensors) {
      if (tensor.key.kind != kind || tensor.overflowed) continue;
      if (tensor.outcome != AuditOutcome::kNotJudged &&
          tensor.outcome != AuditOutcome::kBelowBound) {
        continue;
      }
      if (++unjudged == 1) reason = tensor.reason;
    }
    if (unjudged == 0) continue;
    return render({"{tensors} could not be judged: {reason}",
                   {{"tensors", base::plural(unjudged, noun)}, {"reason", reason}}});
  }
  return "";
}

// Why what is known of the step is not enough, or empty.
std::string why_not_covered(const StepCoverage& step) {
  for (const auto& [kind, noun] : kNeeded) {
    const auto lacking = step.lacking.find(kind);
    if (lacking == step.lacking.end()) continue;
    return render({"the trace lacks {tensors} of the step",
                   {{"tensors", base::plural(lacking->second, noun)}}});
  }
  if (step.unknown_factors > 0) {
    return render(
        {"{count:loss} could not be judged: the run did not record what it multiplied "
         "{count?it|them} by, as loss.factor",
         {{"count", step.unknown_factors}}});
  }
  const auto unjudged = static_cast<double>(step.unjudged_gradients.size());
  if (unjudged > kMostUnjudgedGradients * static_cast<double>(step.parameters)) {
    return render({"the gradients of {unjudged} of {all:parameter} were not judged: {reason}",
                   {{"unjudged", step.unjudged_gradients.size()},
                    {"all", step.parameters},
                    {"reason", step.reason}}});
  }
  if (step.without_origin.tensors > 0) {
    return render(
        {"the specification does not say what {count:tensor} of the step follow from, such as "
         "{first}",
         {{"count", step.without_origin.tensors}, {"first", step.without_origin.first}}});
  }
  if (step.without_loss.tensors > 0) {
    return render(
        {"by the specification the loss does not follow from {count:parameter} that get a "
         "gradient, such as {first}",
         {{"count", step.without_loss.tensors}, {"first", step.without_loss.first}}});
  }
  return "";
}

// Why the audit decides nothing although nothing is broken, or empty.
std::string why_inconclusive(std::size_t lost_ranks, const AuditReport& report) {
  if (lost_ranks > 0) {
    return render({"{count:rank} could not be read, so not every tensor was checked",
                   {{"count", lost_ranks}}});
  }
  std::uint64_t unreadable = 0;
  std::string first;
  for (const AuditedTensor& tensor : report.tensors) {
    if (tensor.unreadable && ++unreadable == 1) first = tensor.reason;
  }
  if (unreadable > 0) {
    return render(
        {"{count:tensor} could not be read: {first}", {{"count", unreadable}, {"first", first}}});
  }
  const AuditCoverage& coverage = report.coverage;
  if (coverage.judged == 0) return render({"no tensor could be judged", {}});
  if (report.part) return "";
  if (std::string why = why_not_judged(report); !why.empty()) return why;
  if (coverage.step) {
    if (std::string why = why_not_covered(*coverage.step); !why.empty()) return why;
  }
  if (coverage.updates) {
    if (std::string why = coverage.updates->why_inconclusive(); !why.empty()) return why;
  }
  if (static_cast<double>(coverage.judged) <
      kLeastCoverage * static_cast<double>(coverage.tensors)) {
    return render({"only {judged} of {all:tensor} could be judged",
                   {{"judged", coverage.judged}, {"all", coverage.tensors}}});
  }
  return "";
}

bool has_wide_bound(const AuditedTensor& tensor) {
  constexpr double kWide = 0.5;
  return std::any_of(tensor.checks.begin(), tensor.checks.end(), [](const AuditCheck& check) {
    return judges_value(check) && check.result == CheckResult::kConsistent && check.bound > kWide;
  });
}

void count(AuditedTensor& tensor, AuditCoverage& coverage) {
  if (tensor.overflowed) {
    ++coverage.overflowed;
    return;
  }
  switch (tensor.outcome) {
    case AuditOutcome::kGiven:
      return;
    case AuditOutcome::kZeroWithinRounding:
      ++coverage.zero_within_rounding;
      return;
    case AuditOutcome::kNotJudged:
      if (tensor.reason.empty()) {
        tensor.reason = render({"nothing says what it follows from", {}});
      }
      ++coverage.not_judged[tensor.reason];
      break;
    case AuditOutcome::kBelowBound:
      if (tensor.reason.empty()) tensor.reason = kBelowBoundReason;
      ++coverage.below_bound;
      break;
    case AuditOutcome::kHolds:
    case AuditOutcome::kBroken:
      ++coverage.judged;
      coverage.endless += tensor.endless > 0 ? 1 : 0;
      coverage.narrow_factors += tensor.narrow_factors ? 1 : 0;
      coverage.wide += has_wide_bound(tensor) ? 1 : 0;
      break;
  }
  ++coverage.tensors;
}

AuditSharpness sharpness_of(const std::vector<AuditedTensor>& tensors) {
  AuditSharpness sharpness;
  std::vector<double> gradient_bounds;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].judged()) continue;
    for (const AuditCheck& check : tensors[i].checks) {
      if (!judges_value(check) || check.result != CheckResult::kConsistent) continue;
      if (check.share() > sharpness.worst_share || !sharpness.worst) {
        sharpness.worst_share = check.share();
        sharpness.worst = i;
      }
      if (is_gradient(tensors[i].key.kind)) gradient_bounds.push_back(check.bound);
    }
  }
  if (!gradient_bounds.empty()) {
    std::sort(gradient_bounds.begin(), gradient_bounds.end());
    sharpness.gradient = gradient_bounds[(gradient_bounds.size() * 9 + 9) / 10 - 1];
  }
  return sharpness;
}

// The learning rates that updates were judged by: another one would hold as well.
std::vector<GivenSetting> given_settings_of(const trace::Manifest& manifest,
                                            const std::vector<AuditedTensor>& tensors) {
  std::set<std::pair<std::uint64_t, std::string>> judged;
  for (const AuditedTensor& tensor : tensors) {
    if (tensor.key.kind != Kind::kParamAfterStep || !tensor.judged()) continue;
    judged.emplace(tensor.key.step, tensor.key.name);
  }
  std::set<double> rates;
  std::set<std::string> parameters;
  for (const trace::OptimizerGroup& group : manifest.optimizer) {
    const auto rate = group.numbers.find("lr");
    if (rate == group.numbers.end()) continue;
    for (const std::string& name : group.params) {
      if (!judged.contains({group.step, name})) continue;
      rates.insert(rate->second);
      parameters.insert(name);
    }
  }
  if (rates.empty()) return {};
  return {{"lr", {rates.begin(), rates.end()}, parameters.size()}};
}

}  // namespace

void reach_verdict(std::size_t lost_ranks, const trace::Manifest& manifest, AuditReport& report) {
  AuditCoverage& coverage = report.coverage;
  std::vector<trace::TensorKey> lacking;
  for (AuditedTensor& tensor : report.tensors) {
    count(tensor, coverage);
    if (tensor.outcome == AuditOutcome::kNotJudged && tensor.lacks)
      lacking.push_back(*tensor.lacks);
  }
  if (coverage.step) {
    for (const auto& [kind, tensors] : coverage.step->lacking) coverage.lacking += tensors;
    coverage.tensors += coverage.lacking;
  }
  coverage.record_next = recording_line(manifest, lacking);
  report.given_settings = given_settings_of(manifest, report.tensors);
  report.sharpness = sharpness_of(report.tensors);
  mark_downstream(report.tensors);
  for (const AuditedTensor& tensor : report.tensors) report.downstream += tensor.downstream ? 1 : 0;
  report.findings = group(report.tensors);
  if (report.interrupted) {
    report.verdict = answer::Verdict::kInconclusive;
    report.why = report.interrupted->describe();
    if (report.findings.empty()) return;
    const AuditedTensor& first = report.tensors[report.findings.front().shown];
    report.why = render({"{interruption}; so far {tensor} is broken",
                         {{"interruption", report.why}, {"tensor", to_string(first.key)}}});
    return;
  }
  if (!report.findings.empty()) {
    report.verdict = answer::Verdict::kWrong;
    report.besides = why_inconclusive(lost_ranks, report);
    return;
  }
  report.why = why_inconclusive(lost_ranks, report);
  report.verdict = report.why.empty() ? answer::Verdict::kRight : answer::Verdict::kInconclusive;
}

}  // namespace ttrace::audit
