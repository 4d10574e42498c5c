#include "optimizer/masters.h"

#include <atomic>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/message.h"
#include "comparison/local_files.h"
#include "measure/measure_update.h"
#include "measure/sections.h"
#include "optimizer/replay_updates.h"
#include "optimizer/settings.h"
#include "optimizer/update_plan.h"

namespace ttrace::optimizer {
namespace {

using comparison::TensorComparison;
using measure::UpdateMeasurement;
using trace::TensorEntry;

// Of one run.
class Masters {
 public:
  explicit Masters(const trace::Source& run) : run_(run), entries_(run.manifest()) {}

  // How far the parameter before the step is from its master; nothing where the update has none.
  // `after` is a view of the updated parameter. Throws an input error if one cannot be read.
  std::optional<UpdateMeasurement> measured(const layout::ViewPtr& after,
                                            const measure::Backend& backend) const {
    const auto plan = planned(after);
    if (!plan) return std::nullopt;
    std::vector<UpdateMeasurement> sections;
    for (const tensor::Box& section : measure::sections_of(after->shape)) {
      sections.push_back(
          measure::measure_update_section(backend, plan->tensors, plan->step, section));
    }
    return measure::merge_sections(std::move(sections));
  }

 private:
  struct Both {
    const TensorEntry* parameter = nullptr;
    const TensorEntry* master = nullptr;
  };

  // The master, moved by a learning rate of 0 and stored as the parameter.
  std::optional<UpdatePlan> planned(const layout::ViewPtr& after) const {
    std::map<const TensorEntry*, Both> leaves;
    measure::StepRoundoffs rounding;
    for (const TensorEntry* entry : layout::stored_in(*after)) {
      trace::TensorKey key = entry->key;
      key.kind = trace::Kind::kParam;
      const Both both{entries_.tensor(key), entries_.state(key, "main_param")};
      if (both.parameter == nullptr || both.master == nullptr) return std::nullopt;
      if (both.parameter->shape != entry->shape || both.master->shape != entry->shape) {
        return std::nullopt;
      }
      const auto held = measure::unit_roundoff(both.parameter->dtype);
      const auto wide = measure::unit_roundoff(both.master->dtype);
      if (!held || !wide) return std::nullopt;
      rounding.working = *measure::unit_roundoff(tensor::DType::kFloat64);
      if (*held > *wide) {
        rounding.stored = std::max(rounding.stored, 2 * *held);
        rounding.stored_smallest =
            std::max(rounding.stored_smallest, measure::smallest_rounding(both.parameter->dtype));
      }
      leaves.emplace(entry, both);
    }
    const auto over = [&](const TensorEntry* Both::*member) {
      return measure::TensorRef(&run_, layout::with_entries(after, [&](const TensorEntry& entry) {
        return *(leaves.at(&entry).*member);
      }));
    };
    UpdatePlan plan;
    plan.tensors.after = over(&Both::parameter);
    plan.tensors.parameter = over(&Both::master);
    plan.tensors.gradient = plan.tensors.parameter;
    plan.step.hyperparameters.algorithm = measure::Algorithm::kSgd;
    plan.step.rounding = rounding;
    return plan;
  }

  const trace::Source& run_;
  OptimizerIndex entries_;
};

}  // namespace

std::vector<std::string> judge_masters(const trace::Source& reference,
                                       const trace::Source& candidate,
                                       const measure::ExecutionContext& execution,
                                       const comparison::WorkHooks& hooks,
                                       std::vector<TensorComparison>& results) {
  std::vector<TensorComparison*> updates;
  for (TensorComparison& result : results) {
    if (is_measured_update(result)) updates.push_back(&result);
  }
  if (updates.empty()) return {};
  // The masters that both runs recorded.
  std::map<trace::TensorKey, TensorComparison*> states;
  for (TensorComparison& result : results) {
    const bool state = result.key.kind == trace::Kind::kOptimizerState;
    if (state && result.comparison && !result.exact && result.key.name.ends_with(kMainCopy)) {
      states.emplace(result.key, &result);
    }
  }
  const Masters of_candidate(candidate);
  const Masters of_reference(reference);
  std::atomic<std::uint64_t> alike = 0;
  std::atomic<std::uint64_t> elsewhere = 0;
  execution.parallel_for(updates.size(), [&](std::size_t u) {
    TensorComparison& result = *updates[u];
    if (hooks.stopped()) return;
    try {
      auto found = of_candidate.measured(result.candidate, *execution.backend);
      if (!found || found->total.unequal == 0) return;
      if (&reference != &candidate) {
        const auto meant = of_reference.measured(result.reference, *execution.backend);
        if (meant && meant->total.unequal > 0) {
          ++alike;
          return;
        }
      }
      trace::TensorKey key = result.key;
      key.kind = trace::Kind::kOptimizerState;
      key.name += kMainCopy;
      const auto state = states.find(key);
      adopt_replay(comparison::kOfMaster, 1, *std::move(found),
                   state == states.end() ? result : *state->second);
    } catch (const base::InputError& error) {
      // A part on that machine has judged the update.
      if (comparison::needs_another_machine(error.what())) {
        ++elsewhere;
      } else {
        comparison::mark_unreadable(result, error.what());
      }
    }
  });
  std::vector<std::string> warnings;
  if (elsewhere > 0) {
    warnings.push_back(base::render(
        {"the optimizer's masters of {count:parameter} lie on other machines and were not compared "
         "with what the model holds; compare where their rank files are",
         {{"count", elsewhere.load()}}}));
  }
  if (alike == 0) return warnings;
  warnings.push_back(
      base::render({"the optimizer's masters of {count:parameter} are not what the model holds, "
                    "in either run, so they were not compared",
                    {{"count", alike.load()}}}));
  return warnings;
}

}  // namespace ttrace::optimizer
