#include "audit/agreement.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/message.h"
#include "base/text.h"
#include "comparison/checkpoint/checkpoint.h"
#include "comparison/pairing.h"
#include "comparison/run_facts.h"
#include "judge/calibration.h"
#include "layout/mesh.h"
#include "localize/phase.h"
#include "optimizer/masters.h"
#include "optimizer/replay_updates.h"

namespace ttrace::audit {
namespace {

using comparison::TensorComparison;
using judge::Outcome;
using trace::Kind;

// Replicas that are this many ε of their norm apart have been rounded differently; more is a
// conflict. Healthy runs of the frameworks tested keep their replicas equal to the bit, except for
// sums that every rank makes on its own.
constexpr double kReplicaEpsilons = 2;

// Values of these kinds are never infinite in a healthy step; an attention mask may be.
bool must_be_finite(Kind kind) {
  switch (kind) {
    case Kind::kInput:
    case Kind::kOutput:
    case Kind::kBuffer:
    case Kind::kBufferAfterStep:
    case Kind::kScalar:
    case Kind::kIndex:
      return false;
    default:
      return true;
  }
}

AuditCheck check_replicas(const TensorComparison& record, tensor::DType coarsest) {
  const measure::Measurement& measured = record.comparison->measurement;
  AuditCheck check;
  check.operation = "replicas";
  check.expected = base::render({"the same value on every rank that holds it", {}});
  const double norm = measure::candidate_norm(measured.total);
  check.error = norm > 0 ? measured.replicas->distance_norm / norm : 0;
  const tensor::DType computed = record.candidate->computed_in.value_or(record.dtype);
  check.bound = tensor::is_floating(record.dtype)
                    ? kReplicaEpsilons *
                          std::max(tensor::epsilon(record.dtype),
                                   std::min(tensor::epsilon(computed), tensor::epsilon(coarsest)))
                    : 0;
  const bool apart =
      measured.replicas_differ && (record.exact || !(check.error <= check.bound) || norm == 0);
  if (!apart) return check;
  check.result = CheckResult::kInconsistent;
  std::string classes;
  for (const std::vector<std::uint64_t>& ranks : measured.replicas->classes) {
    classes += base::concat(classes.empty() ? "" : ", ", layout::describe_ranks(ranks));
    check.ranks.insert(check.ranks.end(), ranks.begin(), ranks.end());
  }
  check.reason = base::render(
      {"ranks that should hold the same value differ: {classes}", {{"classes", classes}}});
  return check;
}

AuditCheck check_finite(const TensorComparison& record) {
  AuditCheck check;
  check.operation = "finite values";
  const measure::TileStats& total = record.comparison->measurement.total;
  if (total.nonfinite_candidate == 0) return check;
  check.result = CheckResult::kInconsistent;
  check.error = std::numeric_limits<double>::quiet_NaN();
  std::set<std::uint64_t> all;
  std::set<std::uint64_t> ranks;
  for (const measure::BlockStats& block : record.comparison->measurement.blocks) {
    const auto& holders = block.owner->ranks;
    all.insert(holders.begin(), holders.end());
    if (block.stats.nonfinite_candidate > 0) ranks.insert(holders.begin(), holders.end());
  }
  if (ranks != all) check.ranks.assign(ranks.begin(), ranks.end());
  const std::string where = ranks != all ? layout::describe_ranks(check.ranks) : "";
  check.reason = base::render(
      {"{count} of {elements:element} are not finite[, all on {ranks}]",
       {{"count", total.nonfinite_candidate}, {"elements", total.elements}, {"ranks", where}}});
  return check;
}

std::string expected_of(const comparison::Replay& replay) {
  if (replay.of == "no update") return replay.of;
  if (replay.of == comparison::kOfMaster) {
    return base::render({"the optimizer's master, rounded", {}});
  }
  return base::render(
      {"{update} of param, main_grad and optimizer_state", {{"update", replay.of}}});
}

AuditCheck check_update(const TensorComparison& record) {
  const comparison::Replay& replay = *record.comparison->replay;
  const bool master = replay.of == comparison::kOfMaster;
  AuditCheck check;
  check.operation = master ? "master" : std::string(kOptimizerStep);
  check.expected = expected_of(replay);
  const double norm = measure::reference_norm(record.comparison->measurement.total);
  if (norm > 0) {
    check.error = measure::difference_norm(record.comparison->measurement.total) / norm;
    check.bound = replay.bound_norm / norm;
  }
  check.expected_norm = norm;
  check.allowed = replay.bound_norm;
  check.require_bound(record.comparison->measurement.total.sum_d2 == 0);
  if (replay.outside == 0) return check;
  check.result = CheckResult::kInconsistent;
  if (master) {
    check.reason = base::render(
        {"{outside} of {elements:element} of the parameter are not what the optimizer's master "
         "holds before the step, which undoes what was loaded into the model",
         {{"outside", replay.outside},
          {"elements", record.comparison->measurement.total.elements}}});
    return check;
  }
  check.reason = base::render(
      {"{outside} of {elements:element} are not what the optimizer makes of the run's own values[; "
       "{unmoved} have not moved]",
       {{"outside", replay.outside},
        {"elements", record.comparison->measurement.total.elements},
        {"unmoved", replay.unmoved > 0 ? base::concat(replay.unmoved) : std::string()}}});
  return check;
}

// A run that changes what the reference leaves alone is not excused by what it says itself.
optimizer::IsRewritten rewritten_by(const specification::Specification* specification,
                                    const trace::Manifest& run) {
  if (specification == nullptr || specification->updates.empty()) {
    return optimizer::rewritten_in(run);
  }
  return [specification](std::uint64_t step, const std::string& parameter) {
    return specification->is_rewritten(step, parameter);
  };
}

}  // namespace

std::string unit_of_audit(const trace::TensorKey& key) {
  const bool forward = localize::phase_of(key) <= localize::Phase::kLoss;
  // The first number in a name is that of the layer; a module outside the layers counts as a layer.
  std::string layer = module_of(key);
  for (std::size_t begin = 0; begin < layer.size();) {
    const std::size_t end = std::min(layer.find('.', begin), layer.size());
    const bool is_number = end > begin && layer.find_first_not_of("0123456789", begin) >= end;
    if (is_number) layer.resize(end);
    begin = end + 1;
  }
  return base::concat(key.step, key.microbatch ? base::concat(" ", *key.microbatch) : "", " ",
                      forward ? "forward " : "backward ", layer);
}

std::vector<TensorComparison> measure_itself(const trace::Source& run,
                                             const comparison::Selection& selection,
                                             const specification::Specification* specification,
                                             const measure::ExecutionContext& execution,
                                             comparison::Checkpoint* work,
                                             const comparison::WorkDivision& division,
                                             const std::atomic<bool>* stop) {
  const comparison::Side side{&run, comparison::tensors_of(run.manifest())};
  const comparison::LostRanks lost = comparison::lost_ranks_of(run);
  const comparison::Absences absences = comparison::absences_of(run, lost);
  const judge::Policy no_rules;
  std::vector<comparison::Pair> pairs = comparison::pair_traces(side, side, {});
  std::vector<trace::TensorKey> keys;
  for (const comparison::Pair& pair : pairs) keys.push_back(pair.key);
  comparison::require_matches(selection, keys);
  std::vector<TensorComparison> records = comparison::initial_results(
      {run, run, selection, no_rules, "", lost.text, lost.text, absences, absences, false},
      std::move(pairs));
  const comparison::NoiseSource no_noise(run.manifest(), nullptr, *execution.backend);
  comparison::Checkpoint nothing_known;
  comparison::Checkpoint& known = work != nullptr ? *work : nothing_known;
  comparison::prepare_work(division, run, run, known, records);
  comparison::WorkHooks hooks;
  hooks.stop = stop;
  if (known.is_recorded()) {
    hooks.finished = [&](std::size_t i) { comparison::record_measurement(known, records[i]); };
  }
  comparison::measure_pairs({run, run, no_noise}, execution, records, hooks);
  comparison::mark_unmeasured(records);
  // Drops the warnings, which are about a comparison's tolerances; each tensor has its own reason.
  const optimizer::ReplayedUpdates replayed = optimizer::replay_updates(
      run, run, rewritten_by(specification, run.manifest()), execution, known, hooks, records);
  for (const auto& [i, problem] : replayed.problems) records[i].reason = problem;
  optimizer::judge_masters(run, run, execution, hooks, records);
  return records;
}

AuditedTensor audited(const TensorComparison& record, tensor::DType coarsest) {
  AuditedTensor tensor;
  tensor.key = record.key;
  tensor.dtype = record.dtype;
  tensor.shape = record.shape;
  if (record.outcome == Outcome::kMissing) {
    AuditCheck check;
    check.operation = "recorded by every rank";
    check.result = CheckResult::kInconsistent;
    check.reason = record.reason.empty() ? *record.note : record.reason;
    tensor.checks.push_back(std::move(check));
    return tensor;
  }
  if (!record.comparison) {
    tensor.reason = record.reason;
    tensor.unreadable = record.outcome == Outcome::kUnreadable;
    tensor.left_undone = record.skipped == comparison::SkippedFor::kInterruption;
    return tensor;
  }
  tensor.norm = measure::candidate_norm(record.comparison->measurement.total);
  if (record.comparison->measurement.has_replicas) {
    tensor.checks.push_back(check_replicas(record, coarsest));
  }
  if (tensor::is_floating(record.dtype) && must_be_finite(record.key.kind)) {
    tensor.checks.push_back(check_finite(record));
  }
  if (record.comparison->replay) {
    tensor.checks.push_back(check_update(record));
  } else if (record.key.kind == Kind::kParamAfterStep) {
    tensor.reason = base::render(
        {"its optimizer cannot be replayed[ ({problem})]", {{"problem", record.reason}}});
  }
  return tensor;
}

}  // namespace ttrace::audit
