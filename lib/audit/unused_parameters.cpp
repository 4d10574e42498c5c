#include "audit/unused_parameters.h"

#include <algorithm>
#include <limits>
#include <map>

#include "audit/agreement.h"
#include "base/error.h"
#include "base/message.h"
#include "layout/view.h"
#include "measure/measure.h"
#include "optimizer/replay_updates.h"
#include "optimizer/update_plan.h"

namespace ttrace::audit {
namespace {

using trace::Kind;
using trace::TensorEntry;

struct UnusedParameter {
  AuditedTensor* tensor = nullptr;
  const TensorEntry* before = nullptr;
  const TensorEntry* after = nullptr;
  bool frozen = false;  // by the reference, in this step
};

std::vector<UnusedParameter> unused_parameters(const trace::Manifest& manifest,
                                               const specification::Specification& specification,
                                               const std::set<std::string>& trained,
                                               std::vector<AuditedTensor>& tensors) {
  std::map<trace::TensorKey, const TensorEntry*> entries;
  std::set<std::pair<std::uint64_t, std::string>> with_gradient;
  for (const TensorEntry& entry : manifest.tensors) {
    entries.emplace(entry.key, &entry);
    if (entry.key.kind == Kind::kParamGrad || entry.key.kind == Kind::kMainGrad) {
      with_gradient.emplace(entry.key.step, entry.key.name);
    }
  }
  std::vector<UnusedParameter> unused;
  for (AuditedTensor& tensor : tensors) {
    if (tensor.key.kind != Kind::kParamAfterStep || !tensor.norm) continue;
    if (specification.is_rewritten(tensor.key.step, tensor.key.name)) continue;
    const bool frozen = specification.is_frozen(tensor.key.step, tensor.key.name);
    const bool is_judged = std::any_of(tensor.checks.begin(), tensor.checks.end(), judges_value);
    if (!frozen && (is_judged || trained.contains(tensor.key.name) ||
                    with_gradient.contains({tensor.key.step, tensor.key.name}))) {
      continue;
    }
    trace::TensorKey key = tensor.key;
    key.kind = Kind::kParam;
    const auto before = entries.find(key);
    if (before == entries.end() || before->second->shape != tensor.shape) continue;
    unused.push_back({&tensor, before->second, entries.at(tensor.key), frozen});
  }
  return unused;
}

measure::Measurement difference(const trace::Source& run, const UnusedParameter& parameter,
                                const measure::Backend& backend) {
  return measure::measure(backend, {&run, parameter.before}, {&run, parameter.after}, nullptr);
}

AuditCheck check_unused(const trace::Source& run, const UnusedParameter& parameter,
                        const optimizer::UpdatePlan& plan, const measure::Backend& backend) {
  AuditCheck check;
  check.operation = kOptimizerStep;
  check.expected =
      parameter.frozen
          ? base::render({"the parameter as it was, since it is frozen in this step", {}})
          : base::render({"the parameter as it was, since it got no gradient", {}});
  const measure::Measurement measured = difference(run, parameter, backend);
  check.expected_norm = measure::reference_norm(measured.total);
  if (measured.total.unequal == 0) return check;
  if (!parameter.frozen && optimizer::is_as_planned(plan, backend)) {
    check.expected = base::render({"what its optimizer makes of a gradient of zeros", {}});
    return check;
  }
  check.result = CheckResult::kInconsistent;
  check.error = check.expected_norm > 0
                    ? measure::difference_norm(measured.total) / check.expected_norm
                    : std::numeric_limits<double>::infinity();
  check.reason = base::render(
      {parameter.frozen
           ? "{unequal} of {elements:element} have moved, although the reference froze "
             "the parameter in this step"
           : "{unequal} of {elements:element} have moved, although the step has no "
             "gradient for it and its optimizer makes nothing like that of zeros",
       {{"unequal", measured.total.unequal}, {"elements", measured.total.elements}}});
  return check;
}

std::string module_with(const std::string& parameter) {
  const std::size_t dot = parameter.rfind('.');
  return dot == std::string::npos ? std::string(trace::kWholeModel) : parameter.substr(0, dot);
}

// What a run recorded in its first step.
class FirstStep {
 public:
  explicit FirstStep(const trace::Manifest& manifest) : manifest_(manifest) {
    for (const TensorEntry& entry : manifest.tensors) {
      number_ = std::min(number_, entry.key.step);
    }
    for (const TensorEntry& entry : manifest.tensors) {
      if (entry.key.step != number_) continue;
      if (entry.key.kind == Kind::kOutput && tensor::element_count(entry.shape) != 0) {
        ran_.insert(entry.key.name);
      } else if (is_gradient(entry.key.kind)) {
        reached_.insert(entry.key.name);
      }
    }
  }

  bool is(const trace::TensorKey& key) const { return key.step == number_; }

  // Whether gradients of most of these parameters were recorded, so that the run can record them.
  bool has_most_of(const std::set<std::string>& parameters) const {
    const auto count = std::ranges::count_if(
        parameters, [this](const std::string& name) { return reached_.contains(name); });
    return 2 * static_cast<std::size_t>(count) > parameters.size();
  }

  // Whether no gradient of a parameter was recorded, although its module ran and nothing says that
  // one was left out.
  bool lacks_gradient(trace::TensorKey key) const {
    if (reached_.contains(key.name) || !ran_.contains(module_with(key.name))) return false;
    for (const Kind kind : {Kind::kParamGrad, Kind::kMainGrad}) {
      key.kind = kind;
      if (trace::incomplete_of(manifest_, key) != nullptr) return false;
    }
    return true;
  }

 private:
  static bool is_gradient(Kind kind) { return kind == Kind::kParamGrad || kind == Kind::kMainGrad; }

  const trace::Manifest& manifest_;
  std::uint64_t number_ = std::numeric_limits<std::uint64_t>::max();
  std::set<std::string> ran_;      // modules whose output has elements
  std::set<std::string> reached_;  // parameters with a gradient
};

}  // namespace

void check_untrained_parameters(const trace::Source& run,
                                const specification::Specification& specification,
                                const std::set<std::string>& trained,
                                std::vector<AuditedTensor>& tensors) {
  const FirstStep step(run.manifest());
  if (!step.has_most_of(trained)) return;
  // A module that was skipped trains nothing, and its output says why.
  const auto is_broken = [](const AuditCheck& check) {
    return check.result == CheckResult::kInconsistent;
  };
  if (std::ranges::any_of(tensors, [&](const AuditedTensor& tensor) {
        return std::ranges::any_of(tensor.checks, is_broken);
      })) {
    return;
  }
  const std::vector<std::vector<std::string>>& tied = specification.after_backward.tied;
  for (AuditedTensor& tensor : tensors) {
    const std::string& name = tensor.key.name;
    if (tensor.key.kind != Kind::kParam || !step.is(tensor.key) || !trained.contains(name))
      continue;
    const bool has_others = std::ranges::any_of(tied, [&](const std::vector<std::string>& names) {
      return std::ranges::find(names, name) != names.end();
    });
    if (has_others || specification.is_frozen(tensor.key.step, name)) continue;
    if (!step.lacks_gradient(tensor.key)) continue;
    AuditCheck check;
    check.operation = "raw gradient";
    check.result = CheckResult::kInconsistent;
    check.expected = base::render({"a gradient, since the loss follows from it", {}});
    check.error = 1;
    check.reason = base::render({"got no gradient, although the loss follows from it", {}});
    tensor.checks.push_back(std::move(check));
    tensor.reason.clear();
  }
}

void check_unused_parameters(const trace::Source& run,
                             const specification::Specification& specification,
                             const std::set<std::string>& trained,
                             const measure::ExecutionContext& execution,
                             std::vector<AuditedTensor>& tensors) {
  const std::vector<UnusedParameter> unused =
      unused_parameters(run.manifest(), specification, trained, tensors);
  std::vector<const TensorEntry*> updated;
  for (const UnusedParameter& parameter : unused) updated.push_back(parameter.after);
  const std::vector<optimizer::UpdatePlan> plans =
      optimizer::plan_with_zero_gradients(run, updated);
  execution.parallel_for(unused.size(), [&](std::size_t i) {
    AuditedTensor& tensor = *unused[i].tensor;
    try {
      AuditCheck check = check_unused(run, unused[i], plans[i], *execution.backend);
      if (unused[i].frozen && check.result == CheckResult::kInconsistent) {
        tensor.causes = {answer::cause_of("not_frozen", "", {check.reason, {}}, 0)};
      }
      tensor.checks.push_back(std::move(check));
      tensor.reason.clear();
    } catch (const base::InputError& error) {
      tensor.reason = error.what();
    }
  });
}

}  // namespace ttrace::audit
