#include "localize/causes/cause.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <span>
#include <string_view>
#include <variant>

#include "base/message.h"
#include "localize/causes/trial.h"

namespace ttrace::localize {

namespace {

using Finder = std::vector<Cause> (*)(const Case&);

// What says where the error is and not how it came about; and what may be true of a constant:
// zeros, and a value that did not change.
constexpr std::string_view kOnlyWhere[] = {
    "mask_or_rows",          "replica_conflict", "non_finite",  "local_norm", "orthogonal_by_shard",
    "changed_between_steps", "loss_scales",      "follows_old", "not_frozen"};
constexpr std::string_view kConstant[] = {"zeroed", "truncated", "stale", "stale_master"};

bool is_among(std::span<const std::string_view> names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The squared norm of the error that is to be explained: that of the tensor or between its copies.
double squared_error(const Case& the_case) {
  double error = difference_of(the_case);
  if (the_case.measurement->replicas_differ) {
    error = std::max(error, the_case.measurement->replicas->distance_norm);
  }
  return error * error;
}

bool has_finite_numbers(const Cause& cause) {
  return std::isfinite(cause.unexplained) &&
         std::all_of(cause.values.begin(), cause.values.end(), [](const auto& value) {
           const auto* const number = std::get_if<double>(&value.second);
           return number == nullptr || std::isfinite(*number);
         });
}

// A replay has the values before the step, too, and they hardly ever vary less than it does.
bool is_replayed(const Case& the_case) {
  const comparison::TensorComparison* const result = the_case.result;
  return result != nullptr && result->comparison && result->comparison->replay;
}

// Whether one number in the place of all values would leave about as much, on either side: of
// copies that differ the candidate's own values say nothing.
bool fits_anything(const Case& the_case, double left) {
  const measure::TileStats& total = the_case.measurement->total;
  if (the_case.exact || total.elements < 2 || is_replayed(the_case)) return false;
  const Variety& variety = variety_of(the_case);
  double deviation = variety.reference_deviation;
  if (!the_case.conflict) deviation = std::min(deviation, variety.candidate_deviation);
  const double rounding = the_case.tolerance.epsilon * measure::reference_norm(total);
  return !(2 * std::max(left, rounding) < deviation);
}

void ask(std::initializer_list<Finder> finders, const Case& the_case, std::vector<Cause>& causes) {
  for (const Finder finder : finders) {
    for (Cause& cause : finder(the_case)) {
      if (is_supported(the_case, cause)) {
        causes.push_back(std::move(cause));
      } else {
        reject(the_case, cause.name, cause.unexplained * reference_unit(the_case));
      }
    }
  }
}

// One order of blocks is a bug of the run or of its manifest alone: if nothing that follows is
// wrong, then of the manifest.
void order_by_evidence(const Case& the_case, std::vector<Cause>& causes) {
  std::stable_sort(causes.begin(), causes.end(),
                   [](const Cause& a, const Cause& b) { return a.unexplained < b.unexplained; });
  const auto is_layout = [](const Cause& cause) { return cause.name == "wrong_layout_declared"; };
  const bool first = !the_case.spreads;
  std::stable_partition(causes.begin(), causes.end(),
                        [&](const Cause& cause) { return is_layout(cause) == first; });
}

// Leaves those that were not named after all, the nearest first.
void order_rejected(const Case& the_case, const std::vector<Cause>& causes) {
  if (the_case.rejected == nullptr) return;
  std::erase_if(*the_case.rejected, [&](const RejectedCause& one) {
    return std::any_of(causes.begin(), causes.end(),
                       [&](const Cause& cause) { return cause.name == one.name; });
  });
  std::stable_sort(
      the_case.rejected->begin(), the_case.rejected->end(),
      [](const RejectedCause& a, const RejectedCause& b) { return a.unexplained < b.unexplained; });
}

}  // namespace

bool is_supported(const Case& the_case, const Cause& cause) {
  if (!has_finite_numbers(cause)) return false;
  if (is_among(kOnlyWhere, cause.name)) return true;
  const double left = cause.unexplained * reference_unit(the_case);
  constexpr double kMostOfSquares = 0.5;
  if (!(left * left <= kMostOfSquares * squared_error(the_case))) return false;
  return is_among(kConstant, cause.name) || !fits_anything(the_case, left);
}

std::vector<Cause> find_causes(const Case& the_case) {
  std::vector<Cause> causes;
  ask({find_non_finite}, the_case, causes);
  if (causes.empty()) {
    ask({find_changed_between_steps, find_loss_scales, find_not_frozen}, the_case, causes);
  }
  if (!causes.empty()) return causes;
  // Nought times the reference is what find_zeroed names, and says where.
  const bool zero = !the_case.exact && the_case.measurement->total.sum_c2 == 0;
  if (!the_case.exact) ask({find_missing_reduction}, the_case, causes);
  if (the_case.may_read && !zero) ask({find_untied}, the_case, causes);
  if (!causes.empty() && causes.front().name == "untied") return causes;
  if (!the_case.exact && !zero) {
    // A step says more than the parameter that it leaves.
    std::vector<Cause> of_step;
    ask({find_scaled_update}, the_case, of_step);
    if (of_step.empty()) ask({find_orthogonal_by_shard, find_follows_old}, the_case, of_step);
    if (of_step.empty()) ask({find_scaled, find_double_reduction}, the_case, of_step);
    std::ranges::move(of_step, std::back_inserter(causes));
  }
  if (the_case.conflict) {
    std::vector<Cause> of_sum;
    ask({find_wrong_sum}, the_case, of_sum);
    // Which raw gradients a copy has says more than that the mean of all copies is right.
    if (!of_sum.empty() && of_sum.front().name == "replica_conflict") causes.clear();
    if (causes.empty()) causes = std::move(of_sum);
    if (causes.empty()) ask({find_earlier_value}, the_case, causes);
    if (causes.empty()) ask({find_replica_conflict}, the_case, causes);
  } else if (causes.empty()) {
    ask({find_scaled_by_rank, find_lower_precision, find_earlier_value, find_other_layer,
         find_wrong_sum, find_operand_order, find_local_norm},
        the_case, causes);
    if (zero) {
      ask({find_zeroed}, the_case, causes);
    } else if (the_case.may_read && causes.empty()) {
      ask({find_zeroed, find_wrong_order, find_duplicated_shard, find_wrong_slice, find_shifted,
           find_offset, find_wrong_layout},
          the_case, causes);
      if (causes.empty()) ask({find_mask_or_rows}, the_case, causes);
    }
  }
  order_by_evidence(the_case, causes);
  order_rejected(the_case, causes);
  return causes;
}

std::vector<Cause> find_causes_of_replay(const Case& the_case, const StaleFacts& facts) {
  std::vector<Cause> causes = find_stale(facts);
  std::erase_if(causes, [&](const Cause& cause) { return !is_supported(the_case, cause); });
  if (causes.empty() && the_case.conflict) {
    ask({find_earlier_value}, the_case, causes);
    if (causes.empty()) ask({find_replica_conflict}, the_case, causes);
  }
  if (causes.empty()) ask({find_scaled_update, find_local_norm}, the_case, causes);
  order_by_evidence(the_case, causes);
  order_rejected(the_case, causes);
  return causes;
}

std::map<std::string, std::string> axes_reduced_over(
    const std::vector<std::size_t>& depends_on, const comparison::Pair& pair,
    const std::vector<comparison::TensorComparison>& results) {
  const auto placed = [](const comparison::Pair& of,
                         const std::string& axis) -> const trace::Placement* {
    for (const auto* entry : layout::stored_in(*of.candidate)) {
      const auto found = entry->placements.find(axis);
      if (found != entry->placements.end()) return &found->second;
    }
    return nullptr;
  };
  const auto is_whole = [](const trace::Placement* placement) {
    return placement == nullptr || std::holds_alternative<trace::Replicate>(*placement);
  };
  std::map<std::string, std::string> found;
  for (const std::size_t node : depends_on) {
    const trace::Kind kind = results[node].key.kind;
    if (results[node].candidate == nullptr || kind == trace::Kind::kParam ||
        kind == trace::Kind::kOptimizerState) {
      continue;
    }
    for (const auto* entry : layout::stored_in(*results[node].candidate)) {
      for (const auto& [axis, placement] : entry->placements) {
        const auto* partial = std::get_if<trace::Partial>(&placement);
        if ((partial == nullptr && !trace::cut_dimension(placement)) ||
            !is_whole(placed(pair, axis))) {
          continue;
        }
        const std::string name(kind_name(kind));
        if (partial == nullptr) {
          found.emplace(axis, base::render({"its {kind} is cut over {axis}",
                                            {{"kind", name}, {"axis", axis}}}));
        } else {
          found.emplace(
              axis, base::render({"its {kind} is a partial {reduction} over {axis}",
                                  {{"kind", name},
                                   {"reduction", std::string(reduction_name(partial->reduction))},
                                   {"axis", axis}}}));
        }
      }
    }
  }
  return found;
}

Related::Related(const std::vector<comparison::TensorComparison>& results,
                 const trace::Source& reference, const trace::Source& candidate)
    : reference_(reference), candidate_(candidate) {
  for (const comparison::TensorComparison& record : results) {
    kinds_[record.key.kind].push_back(&record);
    shapes_[{record.key.kind, record.shape}].push_back(&record);
  }
}

const Related::Records& Related::of_kind(trace::Kind kind) const {
  static const Records kNone;
  const auto found = kinds_.find(kind);
  return found == kinds_.end() ? kNone : found->second;
}

const Related::Records& Related::alike(trace::Kind kind, const tensor::Shape& shape) const {
  static const Records kNone;
  const auto found = shapes_.find({kind, shape});
  return found == shapes_.end() ? kNone : found->second;
}

measure::TensorRef Related::reference(const comparison::TensorComparison& record) const {
  if (record.reference == nullptr) return {};
  return {&reference_, record.reference};
}

measure::TensorRef Related::candidate(const comparison::TensorComparison& record) const {
  if (record.candidate == nullptr) return {};
  return {&candidate_, record.candidate};
}

}  // namespace ttrace::localize
