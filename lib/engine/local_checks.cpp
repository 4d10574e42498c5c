#include "engine/local_checks.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "audit/after_backward.h"
#include "audit/agreement.h"
#include "audit/consequences.h"
#include "audit/expressions.h"
#include "audit/main_gradients.h"
#include "comparison/local_files.h"
#include "comparison/shown_precision.h"

namespace ttrace::engine {
namespace {

using audit::AuditedTensor;

bool is_near(const trace::TensorKey& key, const trace::TensorKey& like) {
  if (key.step != like.step) return false;
  return !key.microbatch || !like.microbatch || key.microbatch == like.microbatch;
}

}  // namespace

void LocalChecks::check(const std::set<std::string>& modules, comparison::WorkDivision division) {
  division_ = std::move(division);
  division_.unit = audit::unit_of_audit;
  comparison::Selection selection;
  std::set<trace::Kind> kinds;
  for (const trace::TensorEntry& entry : run_.manifest().tensors) {
    if (!modules.contains(trace::module_of(entry.key))) continue;
    selection.only.push_back(entry.key.name);
    kinds.insert(entry.key.kind);
  }
  if (selection.only.empty()) return;
  std::sort(selection.only.begin(), selection.only.end());
  selection.only.erase(std::unique(selection.only.begin(), selection.only.end()),
                       selection.only.end());
  // With more patterns than this, matching names takes longer than measuring a few tensors too
  // many.
  constexpr std::size_t kMostPatterns = 100;
  if (selection.only.size() > kMostPatterns) selection.only.clear();
  selection.kinds.assign(kinds.begin(), kinds.end());
  std::map<trace::TensorKey, double> norms;
  const tensor::DType coarsest =
      comparison::coarsest_stored(run_.manifest()).value_or(tensor::DType::kFloat64);
  for (const comparison::TensorComparison& record :
       audit::measure_itself(run_, selection, options_.specification, options_.execution,
                             work_ ? &*work_ : nullptr, division_, options_.stop)) {
    const std::string module = trace::module_of(record.key);
    const bool left_undone = record.skipped == comparison::SkippedFor::kInterruption;
    const bool skipped = record.outcome == judge::Outcome::kSkippedByRule && !left_undone;
    if (skipped || !modules.contains(module)) continue;
    tensors_.push_back(audit::audited(record, coarsest));
    if (record.comparison) {
      norms.emplace(record.key, measure::candidate_norm(record.comparison->measurement.total));
    }
  }
  judge_values(norms);
  audit::settle_outcomes(tensors_);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    by_module_[trace::module_of(tensors_[i].key)].push_back(i);
  }
  audit::mark_downstream(tensors_);
}

std::optional<answer::Interruption> LocalChecks::interruption() const {
  answer::Interruption found{0, tensors_.size()};
  for (const AuditedTensor& tensor : tensors_) found.measured += tensor.left_undone ? 0 : 1;
  found.missing = comparison::missing_in_merge(division_, found.measured < found.of);
  if (found.measured == found.of && found.missing.empty()) return std::nullopt;
  return found;
}

std::vector<AuditedTensor> LocalChecks::of(const std::string& module,
                                           const trace::TensorKey* like) const {
  std::vector<AuditedTensor> tensors;
  const auto found = by_module_.find(module);
  if (found == by_module_.end()) return tensors;
  for (const std::size_t i : found->second) {
    if (like == nullptr || is_near(tensors_[i].key, *like)) tensors.push_back(tensors_[i]);
  }
  return tensors;
}

void LocalChecks::judge_values(const std::map<trace::TensorKey, double>& norms) {
  if (const specification::Specification* specification = options_.specification) {
    const specification::Specification* other = options_.candidate_specification;
    audit::check_expressions(
        {run_, *specification, options_.specification_file, options_.execution,
         specification::Products::kProbed, specification->bytes + (other ? other->bytes : 0),
         work_ ? &*work_ : nullptr, division_, options_.stop},
        tensors_);
  }
  if (division_.part || interruption()) {
    audit::leave_after_backward(division_.part.has_value(), tensors_);
  } else {
    judge_after_backward(norms);
  }
}

void LocalChecks::judge_after_backward(const std::map<trace::TensorKey, double>& norms) {
  const audit::MeasuredRun measured{run_, options_.execution, norms, std::nullopt,
                                    options_.specification};
  audit::check_main_gradients(measured, tensors_);
  audit::check_gradient_norms(measured, tensors_);
  audit::check_steps(measured, tensors_);
}

}  // namespace ttrace::engine
