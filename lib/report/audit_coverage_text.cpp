#include "report/audit_coverage_text.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/message.h"
#include "base/text.h"
#include "report/answer_text.h"

namespace ttrace::report {
namespace {

using audit::AuditedTensor;
using audit::AuditOutcome;
using audit::AuditReport;
using base::concat;
using base::plural;

// Says of whose updates nothing judges the states that they were made from, and of how many buffers
// nothing judges what a step leaves in them.
std::string describe_given_states(const AuditReport& report) {
  std::set<std::string> parameters;
  std::set<std::string> buffers;
  for (const AuditedTensor& tensor : report.tensors) {
    if (tensor.outcome != AuditOutcome::kGiven) continue;
    if (tensor.key.kind == trace::Kind::kBufferAfterStep) buffers.insert(tensor.key.name);
    if (tensor.key.kind != trace::Kind::kOptimizerState) continue;
    parameters.insert(tensor.key.name.substr(0, tensor.key.name.rfind('.')));
  }
  std::string text;
  if (!parameters.empty()) {
    text = base::render(
        {", the optimizer states of {count:parameter} are given", {{"count", parameters.size()}}});
  }
  if (buffers.empty()) return text;
  return concat(text, base::render({", the new values of {count:buffer} are given",
                                    {{"count", buffers.size()}}}));
}

// What is excused: gradients of a step that was skipped, and what a script multiplies its losses
// by, where that differs between micro-batches or counts terms.
std::string describe_excused(const AuditReport& report) {
  std::string text;
  if (report.coverage.overflowed > 0) {
    text = concat(", ", report.coverage.overflowed,
                  " are not finite in a step that the GradScaler skipped");
  }
  if (report.coverage.narrow_factors > 0) {
    text += concat(", ", report.coverage.narrow_factors,
                   " with room for TF32, which the run says it multiplied in");
  }
  text += describe_given_states(report);
  std::set<std::pair<std::uint64_t, std::optional<std::uint64_t>>> losses;
  for (const AuditedTensor& tensor : report.tensors) {
    if (tensor.outcome != AuditOutcome::kGiven) continue;
    if (trace::is_factor_of_loss(tensor.key) || trace::is_inner_factor_of_loss(tensor.key)) {
      losses.emplace(tensor.key.step, tensor.key.microbatch);
    }
  }
  const bool scaled = std::any_of(
      report.tensors.begin(), report.tensors.end(),
      [](const AuditedTensor& tensor) { return trace::is_factor_of_gradients(tensor.key); });
  if (scaled) text += ", the factor of the main gradients is given";
  const std::uint64_t factors = losses.size();
  if (factors == 0) return text;
  return concat(text, ", the ", factors == 1 ? "factor" : "factors", " of ",
                plural(factors, "loss"), factors == 1 ? " is" : " are", " given");
}

// "28 main gradients and 3 other tensors": the most important kind by name.
std::string describe_lacking(const audit::AuditCoverage& coverage) {
  constexpr std::pair<trace::Kind, std::string_view> kNamed[] = {
      {trace::Kind::kLoss, "loss"},
      {trace::Kind::kGradNorm, "gradient norm"},
      {trace::Kind::kMainGrad, "main gradient"},
      {trace::Kind::kParamGrad, "raw gradient"},
      {trace::Kind::kParamAfterStep, "updated parameter"},
      {trace::Kind::kOutput, "output"}};
  for (const auto& [kind, noun] : kNamed) {
    const auto found = coverage.step->lacking.find(kind);
    if (found == coverage.step->lacking.end()) continue;
    const std::uint64_t others = coverage.lacking - found->second;
    return concat(plural(found->second, noun),
                  others > 0 ? concat(" and ", plural(others, "other tensor")) : std::string());
  }
  return plural(coverage.lacking, "tensor");
}

}  // namespace

std::string describe_unjudged_gradients(const audit::StepCoverage& step) {
  return concat("the gradients of ", step.unjudged_gradients.size(), " of ",
                plural(step.parameters, "parameter"), " were not judged");
}

std::string describe_coverage(const AuditReport& report) {
  const audit::AuditCoverage& coverage = report.coverage;
  return concat(coverage.judged, " of ",
                report.selected_of ? plural(coverage.tensors, "selected tensor")
                                   : plural(coverage.tensors, "tensor"),
                " follow from what they were computed from (",
                report.selected_of
                    ? concat("of ", *report.selected_of)
                    : percent(coverage.tensors > 0 ? static_cast<double>(coverage.judged) /
                                                         static_cast<double>(coverage.tensors)
                                                   : 0),
                ")", describe_excused(report));
}

std::vector<std::string> describe_unchecked(const AuditReport& report) {
  const audit::AuditCoverage& coverage = report.coverage;
  std::vector<std::string> clauses;
  if (coverage.lacking > 0) {
    clauses.push_back(concat("the trace lacks ", describe_lacking(coverage), " of the step"));
  }
  if (coverage.step && !coverage.step->unjudged_gradients.empty()) {
    clauses.push_back(describe_unjudged_gradients(*coverage.step));
  }
  if (coverage.updates) {
    for (std::string said : {coverage.updates->describe_unmoved(), coverage.updates->describe()}) {
      if (!said.empty()) clauses.push_back(std::move(said));
    }
  }
  const std::uint64_t left = coverage.tensors - coverage.judged - coverage.lacking;
  if (left > 0) clauses.push_back(concat(left, " could not be judged"));
  if (coverage.endless > 0) {
    clauses.push_back(concat(plural(coverage.endless, "tensor"),
                             coverage.endless == 1 ? " has" : " have",
                             " NaN or infinities, as expected"));
  }
  if (coverage.wide > 0) {
    clauses.push_back(concat(coverage.wide, coverage.wide == 1 ? " has" : " have",
                             " a bound of more than half of its value"));
  }
  if (coverage.step && coverage.step->coarser) {
    clauses.push_back(concat("bounds are of ", dtype_name(*coverage.step->coarser),
                             ", coarser than anything stored"));
  }
  return clauses;
}

}  // namespace ttrace::report
