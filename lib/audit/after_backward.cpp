#include "audit/after_backward.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/message.h"
#include "base/text.h"
#include "judge/tolerance.h"
#include "measure/measure.h"
#include "measure/optimizer/hyperparameters.h"
#include "measure/optimizer/step.h"
#include "optimizer/gradient_norm.h"
#include "specification/evaluate/evaluate.h"
#include "trace/normed_parts.h"

namespace ttrace::audit {
namespace {

using trace::Kind;
using trace::TensorEntry;

// The parameters of a part that get a gradient in the step and have no main gradient in the trace.
std::uint64_t without_main_gradient(const MeasuredRun& measured, const trace::NormedParts& parts,
                                    std::uint64_t step, const std::string& part) {
  std::set<std::string> missing = measured.trained.value_or(std::set<std::string>{});
  const specification::Specification* specification = measured.specification;
  std::erase_if(missing, [&](const std::string& name) {
    if (specification != nullptr && specification->is_frozen(step, name)) return true;
    return !parts.counts(step, part, name);
  });
  for (const TensorEntry& entry : measured.run.manifest().tensors) {
    if (entry.key.kind == Kind::kMainGrad && entry.key.step == step) missing.erase(entry.key.name);
  }
  return missing.size();
}

// The norm as it was recorded, with its sign.
double recorded_norm(const MeasuredRun& measured, const TensorEntry& entry, double norm) {
  if (tensor::element_count(entry.shape) != 1) return norm;
  return specification::read_value({&measured.run, &entry}).data()[0];
}

AuditCheck check_sign(double recorded) {
  AuditCheck check;
  check.operation = "gradient norm";
  check.result = CheckResult::kInconsistent;
  check.expected = base::render({"a number that is not negative", {}});
  check.error = 2;
  check.reason = base::render(
      {"is {recorded}, and no norm is negative", {{"recorded", base::nine_digits(recorded)}}});
  return check;
}

// Adds a broken check if the run clips gradients by another limit than the specification's, so that
// it leaves another part of them.
void check_limit(const MeasuredRun& measured, const trace::NormedParts& parts, double recorded,
                 AuditedTensor& norm) {
  if (measured.specification == nullptr) return;
  const std::optional<double> specified = measured.specification->after_backward.clip_norm;
  const std::vector<trace::OptimizerGroup>& groups = measured.run.manifest().optimizer;
  const bool known = std::ranges::any_of(groups, [&](const trace::OptimizerGroup& group) {
    return group.step == norm.key.step && measure::read_hyperparameters(group).values;
  });
  if (!specified || !known) return;
  const std::optional<double> limit = parts.limit(norm.key.step, "");
  const double own = limit ? measure::clip_coefficient(*limit, recorded) : 1;
  const double meant = measure::clip_coefficient(*specified, recorded);
  if (measure::same_number(own, meant)) return;
  AuditCheck check;
  check.operation = "clipping";
  check.result = CheckResult::kInconsistent;
  check.expected = base::render({"gradients clipped to {specified}", {{"specified", *specified}}});
  check.expected_norm = meant;
  check.error = std::abs(own - meant) / meant;
  check.reason = base::render(
      {limit ? "the run clips gradients to {limit}, and the specification to {specified}"
             : "the run does not clip gradients, and the specification does to {specified}",
       {{"limit", limit.value_or(0)}, {"specified", *specified}}});
  norm.checks.push_back(std::move(check));
}

}  // namespace

void check_gradient_norms(const MeasuredRun& measured, std::vector<AuditedTensor>& tensors) {
  std::map<trace::TensorKey, double> squares;
  for (const auto& [key, norm] : measured.norms) {
    if (key.kind == Kind::kMainGrad) squares.emplace(key, norm * norm);
  }
  optimizer::MainGradientNorms norms(measured.run, std::move(squares));
  const EntriesByKey entries = entries_of(measured.run);
  for (AuditedTensor& tensor : tensors) {
    if (tensor.key.kind == Kind::kParamAfterStep) {
      trace::TensorKey norm = tensor.key;
      norm.kind = Kind::kGradNorm;
      norm.name = norms.parts().part_with(norm.step, norm.name);
      if (!norm.name.empty()) tensor.follows_from.push_back(std::move(norm));
    }
    const auto found = measured.norms.find(tensor.key);
    if (tensor.key.kind != Kind::kGradNorm || found == measured.norms.end()) continue;
    const double recorded = recorded_norm(measured, *entries.at(tensor.key), found->second);
    if (recorded < 0) {
      tensor.checks.push_back(check_sign(recorded));
      continue;
    }
    const std::uint64_t step = tensor.key.step;
    const auto part = norms.parts().part_of(step, tensor.key.name);
    if (!part) {
      tensor.outcome = AuditOutcome::kGiven;
      continue;
    }
    if (part->empty()) check_limit(measured, norms.parts(), recorded, tensor);
    const std::uint64_t lacking = without_main_gradient(measured, norms.parts(), step, *part);
    const optimizer::MainGradientNorm& own = norms.of(step, *part);
    if (!own.problem.empty() || lacking > 0) {
      tensor.reason =
          !own.problem.empty()
              ? own.problem
              : base::render({"the main gradients of {count:parameter} were not recorded",
                              {{"count", lacking}}});
      continue;
    }
    AuditCheck check;
    check.operation = "gradient norm";
    check.bound = std::min(own.rounding, judge::kMostNormRounding);
    // Main gradients are recorded before they are clipped, or after.
    std::vector<double> expected{own.norm};
    if (const auto limit = norms.parts().limit(step, *part)) {
      const double factor = measure::clip_coefficient(*limit, recorded);
      if (factor < 1) expected.push_back(own.norm / factor);
    }
    check.error = std::numeric_limits<double>::infinity();
    double nearest = own.norm;
    for (const double value : expected) {
      const double error =
          value > 0 ? std::abs(recorded - value) / value : (recorded > 0 ? check.error : 0);
      if (!(error < check.error)) continue;
      check.error = error;
      nearest = value;
    }
    const std::string makes = base::nine_digits(nearest);
    check.expected = base::render({"norm of the main gradients, {norm}", {{"norm", makes}}});
    check.expected_norm = nearest;
    check.allowed = check.bound * nearest;
    check.require_bound(check.error == 0);
    if (!(check.error <= check.bound)) {
      const bool may_be_rounding = check.error <= own.rounding;
      check.result = may_be_rounding ? CheckResult::kNotReplayable : CheckResult::kInconsistent;
      check.reason = base::render(
          {may_be_rounding ? "is {recorded}, and the run's own main gradients make {norm}; adding "
                             "up as many squares in single precision may lose that much"
                           : "is {recorded}, and the run's own main gradients make {norm}",
           {{"recorded", base::nine_digits(recorded)}, {"norm", makes}}});
      if (may_be_rounding) tensor.reason = check.reason;
    }
    tensor.checks.push_back(std::move(check));
  }
}

void leave_after_backward(bool is_part, std::vector<AuditedTensor>& tensors) {
  const std::string reason =
      base::render({is_part ? "left to `ttrace report merge` of all parts"
                            : "it needs all tensors of its step, and some were not judged",
                    {}});
  for (AuditedTensor& tensor : tensors) {
    if (tensor.key.kind != Kind::kMainGrad && tensor.key.kind != Kind::kGradNorm) continue;
    if (tensor.reason.empty()) tensor.reason = reason;
  }
}

void check_steps(const MeasuredRun& measured, std::vector<AuditedTensor>& tensors) {
  const EntriesByKey entries = entries_of(measured.run);
  std::vector<AuditedTensor*> parameters;
  for (AuditedTensor& tensor : tensors) {
    if (tensor.key.kind == Kind::kParam && tensor.key.step > 0) parameters.push_back(&tensor);
  }
  measured.execution.parallel_for(parameters.size(), [&](std::size_t i) {
    AuditedTensor& tensor = *parameters[i];
    trace::TensorKey before = tensor.key;
    before.step -= 1;
    before.kind = Kind::kParamAfterStep;
    const auto previous = entries.find(before);
    if (previous == entries.end() || !measured.norms.contains(tensor.key)) return;
    const TensorEntry& now = *entries.at(tensor.key);
    if (previous->second->shape != now.shape || previous->second->dtype != now.dtype) return;
    try {
      const measure::Measurement measurement =
          measure::measure(*measured.execution.backend, {&measured.run, previous->second},
                           {&measured.run, &now}, nullptr);
      AuditCheck check;
      check.operation = "previous step";
      check.expected = base::render({"param_after_step of step {step}", {{"step", before.step}}});
      if (measurement.total.unequal > 0) {
        const double norm = measure::reference_norm(measurement.total);
        check.result = CheckResult::kInconsistent;
        check.error = norm > 0 ? measure::difference_norm(measurement.total) / norm : 1;
        check.reason =
            base::render({"{unequal} of {elements:element} are not what step {step} left",
                          {{"unequal", measurement.total.unequal},
                           {"elements", measurement.total.elements},
                           {"step", before.step}}});
      }
      tensor.checks.push_back(std::move(check));
    } catch (const base::InputError& error) {
      tensor.reason = error.what();
    }
  });
}

}  // namespace ttrace::audit
