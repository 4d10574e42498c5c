#include "engine/selftest_traces.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "base/functions.h"
#include "base/text.h"
#include "comparison/accumulation_error.h"
#include "comparison/fault_plan.h"
#include "comparison/judge_pairs.h"
#include "comparison/stored_before.h"
#include "measure/fault.h"
#include "optimizer/gradient_norm.h"
#include "optimizer/replay_updates.h"
#include "optimizer/update_plan.h"

namespace ttrace::engine {
namespace {

using comparison::SelftestReport;
using comparison::SelftestTensor;
using comparison::TensorComparison;
using comparison::Trial;
using comparison::TrialState;
using judge::Outcome;
using measure::TensorRef;

constexpr int kDecades = 7;
constexpr int kPerDecade = 8;

std::vector<double> ladder() {
  std::vector<double> sizes;
  for (int k = -kDecades * kPerDecade; k <= 0; ++k) {
    sizes.push_back(base::power(10.0, static_cast<double>(k) / kPerDecade));
  }
  return sizes;
}

// The state of the comparison from which pairs are judged again.
struct Known {
  const trace::Source& reference;
  const trace::Source& candidate;
  const std::vector<TensorComparison>& results;
  const std::vector<double>& ladder;
  const comparison::AccumulationError& sums;
  const optimizer::GradientNormJudge& gradient_norms;
  const measure::Backend& backend;
};

// Judges one pair again and again, with faults in the candidate.
class Bench {
 public:
  Bench(const Known& known, std::size_t index, const comparison::Tolerances& tolerances,
        const optimizer::UpdatePlan* plan)
      : healthy_(known.results[index]),
        ladder_(known.ladder),
        tolerances_(tolerances),
        sums_(known.sums),
        gradient_norms_(known.gradient_norms),
        backend_(known.backend),
        reference_(&known.reference, healthy_.reference),
        candidate_(&known.candidate, healthy_.candidate) {
    if (plan != nullptr && plan->unreadable) throw base::InputError(plan->problem);
    if (plan != nullptr && plan->problem.empty()) plan_ = *plan;
    if (tensor::element_count(healthy_.reference->shape).value_or(~0U) > kMostHeldElements) return;
    reference_ = measure::keep_in_memory(reference_, measure::Replicas::kFirstOnly, healthy_.exact);
    candidate_ =
        measure::keep_in_memory(candidate_, measure::Replicas::all(backend_), healthy_.exact);
  }

  const TensorRef& candidate() const { return candidate_; }

  // Judges the pair as compare_traces does, with `candidate` in the place of its own.
  TensorComparison judged(const TensorRef& candidate) const {
    TensorComparison result;
    static_cast<comparison::Pair&>(result) = healthy_;
    result.shape = healthy_.shape;
    result.dtype = healthy_.dtype;
    result.exact = healthy_.exact;
    result.stored_before = healthy_.stored_before;
    comparison::ComparedNumbers comparison;
    comparison.noise = healthy_.comparison->noise;
    const measure::Grid* grid = comparison.noise ? &comparison.noise->grid : nullptr;
    comparison.own_rounding = healthy_.comparison->own_rounding;
    const auto roundings = comparison::roundings_of(healthy_);
    comparison.measurement = measure::measure(backend_, reference_, candidate, grid,
                                              {nullptr, roundings ? &*roundings : nullptr});
    result.comparison = std::move(comparison);
    if (plan_) {
      optimizer::UpdatePlan plan = *plan_;
      plan.tensors.after.opener = candidate.opener;
      optimizer::replay_one(plan, backend_, result);
    }
    result.outcome = tolerances_.judge(sums_, result).outcome;
    gradient_norms_.judge(true, result);
    return result;
  }

  Trial tried(const comparison::PlannedFault& planned) const {
    Trial trial;
    trial.what = planned.problem.empty() ? planned.what : planned.problem;
    if (!planned.problem.empty()) return trial;
    trial.state = state_of(planned.fault);
    if (trial.state != TrialState::kCaught || !comparison::has_sizes(planned.kind)) return trial;
    const auto caught = [&](double size) {
      measure::Fault fault = planned.fault;
      fault.factor = 1 + size;
      return state_of(fault) == TrialState::kCaught;
    };
    // The last size is caught.
    trial.size = *std::partition_point(ladder_.begin(), ladder_.end() - 1,
                                       [&](double size) { return !caught(size); });
    return trial;
  }

 private:
  TrialState state_of(const measure::Fault& fault) const {
    std::uint64_t changed = 0;
    const bool bad = judge::is_bad(judged(measure::with_fault(candidate_, fault, changed)).outcome);
    if (changed == 0) return TrialState::kUnchanged;
    return bad ? TrialState::kCaught : TrialState::kMissed;
  }

  const TensorComparison& healthy_;
  const std::vector<double>& ladder_;
  const comparison::Tolerances& tolerances_;
  const comparison::AccumulationError& sums_;
  const optimizer::GradientNormJudge& gradient_norms_;
  const measure::Backend& backend_;
  TensorRef reference_;
  TensorRef candidate_;
  std::optional<optimizer::UpdatePlan> plan_;
};

SelftestTensor described(const TensorComparison& result) {
  SelftestTensor tensor;
  tensor.key = result.key;
  tensor.dtype = result.dtype;
  tensor.shape = result.shape;
  return tensor;
}

SelftestTensor tested(const Bench& bench, const comparison::FaultPlanner& planner,
                      const TensorComparison& result) {
  SelftestTensor tensor = described(result);
  const TensorComparison healthy = bench.judged(bench.candidate());
  if (judge::is_bad(healthy.outcome)) {
    // It got its outcome from the update that it comes from (judge_updates_without_replay), and
    // that update is tried itself.
    tensor.unjudged = "judged by the update of the step before";
    return tensor;
  }
  tensor.rule = judge::rule_text(healthy.comparison->tolerance);
  for (const comparison::PlannedFault& planned : planner.plan(result, bench.candidate())) {
    tensor.trial(planned.kind) = bench.tried(planned);
  }
  return tensor;
}

std::string no_table(const comparison::CompareReport& compared) {
  if (compared.verdict == answer::Verdict::kRight) return "";
  if (compared.verdict == answer::Verdict::kInconclusive) return compared.why;
  std::uint64_t bad = 0;
  for (const Outcome outcome : judge::kAllOutcomes) {
    if (judge::is_bad(outcome)) bad += compared.counts.at(outcome);
  }
  return base::concat("the pair itself is not a match (", base::plural(bad, "tensor"),
                      "); `ttrace compare` tells where");
}

bool nothing_tried(const std::vector<SelftestTensor>& tensors) {
  return std::none_of(tensors.begin(), tensors.end(), [](const SelftestTensor& tensor) {
    return std::any_of(tensor.trials.begin(), tensor.trials.end(), [](const Trial& trial) {
      return trial.state == TrialState::kCaught || trial.state == TrialState::kMissed;
    });
  });
}

}  // namespace

SelftestReport selftest_traces(const trace::Source& reference, const trace::Source& candidate,
                               const std::vector<const trace::Source*>& noise,
                               CompareOptions options) {
  const auto started = std::chrono::steady_clock::now();
  std::vector<TensorComparison> results;
  options.on_measured = [&](const std::vector<TensorComparison>& measured) { results = measured; };
  comparison::CompareReport compared = compare_traces(reference, candidate, noise, options);
  SelftestReport out;
  out.pair = compared.verdict;
  out.why = no_table(compared);
  out.reference = std::move(compared.reference);
  out.candidate = std::move(compared.candidate);
  out.noise_runs = std::move(compared.noise_runs);
  out.tolerance_file = std::move(compared.tolerance_file);
  out.warnings = std::move(compared.warnings);
  out.ladder = ladder();

  if (out.pair == answer::Verdict::kRight) {
    const judge::Policy no_rules;
    const comparison::Tolerances tolerances(
        reference.manifest(), options.calibration ? options.calibration->rules : no_rules, results);
    const std::map<std::size_t, optimizer::UpdatePlan> plans = optimizer::plan_replays(
        reference, candidate, optimizer::rewritten_in(reference.manifest()), results);
    const comparison::FaultPlanner planner(candidate, results);
    const comparison::AccumulationError sums(reference, results, *options.execution.backend);
    const optimizer::GradientNormJudge gradient_norms(reference, candidate, results);
    const Known known{reference,
                      candidate,
                      results,
                      out.ladder,
                      sums,
                      gradient_norms,
                      *options.execution.backend};
    std::vector<std::optional<SelftestTensor>> tensors(results.size());
    options.execution.parallel_for(results.size(), [&](std::size_t i) {
      if (!options.selection.selects(results[i].key)) return;
      if (!results[i].comparison) {
        tensors[i] = described(results[i]);
        tensors[i]->unjudged = results[i].reason;
        return;
      }
      const auto plan = plans.find(i);
      const Bench bench(known, i, tolerances, plan == plans.end() ? nullptr : &plan->second);
      tensors[i] = tested(bench, planner, results[i]);
    });
    for (std::optional<SelftestTensor>& tensor : tensors) {
      if (tensor) out.tensors.push_back(std::move(*tensor));
    }
    if (nothing_tried(out.tensors))
      out.why = "no fault changes a value of any tensor that is judged";
  }
  out.environment = compared.environment;
  out.environment.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return out;
}

}  // namespace ttrace::engine
