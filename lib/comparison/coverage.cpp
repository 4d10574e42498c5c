#include "comparison/coverage.h"

#include <algorithm>

#include "comparison/shown_precision.h"

namespace ttrace::comparison {

using judge::Outcome;
using trace::Kind;

bool is_computed(Kind kind) {
  switch (kind) {
    case Kind::kOutput:
    case Kind::kLoss:
    case Kind::kGradOutput:
    case Kind::kGradInput:
    case Kind::kParamGrad:
    case Kind::kMainGrad:
    case Kind::kGradNorm:
    case Kind::kParamAfterStep:
    case Kind::kBufferAfterStep:
      return true;
    case Kind::kParam:
    case Kind::kBuffer:
    case Kind::kInput:
    case Kind::kOptimizerState:
    case Kind::kScalar:
    case Kind::kIndex:
      return false;
  }
  return false;
}

void Tally::add(const TensorComparison& result) {
  // Prefers a tensor that was left out for a known reason.
  if (tensors++ == 0 || (result.incomplete && !first->incomplete)) first = &result;
}

bool are_too_many_gradients(std::uint64_t unchecked, std::uint64_t all) {
  return unchecked > 0 && 10 * unchecked >= all;
}

bool are_most(std::uint64_t unchecked, std::uint64_t all) { return 2 * unchecked > all; }

std::uint64_t rows_left_out(const TensorComparison& result) {
  const auto of = [](const layout::ViewPtr& view) {
    return view == nullptr ? std::uint64_t{0} : view->left_out;
  };
  return std::max({of(result.reference), of(result.candidate), result.rows_without_gradient});
}

bool is_mostly_not_finite(const TensorComparison& result) {
  if (!result.comparison) return false;
  const measure::TileStats& stats = result.comparison->measurement.total;
  return 2 * stats.nonfinite_equal > stats.elements;
}

bool is_excused(const CompareReport& report, const TensorComparison& result) {
  return std::binary_search(report.skipped_steps.begin(), report.skipped_steps.end(),
                            result.key.step) &&
         is_mostly_not_finite(result);
}

namespace {

// Counts a compared tensor by the nature of its values.
void add_values(const TensorComparison& result, Coverage& coverage) {
  const measure::TileStats& stats = result.comparison->measurement.total;
  const judge::Rule rule = result.comparison->tolerance.rule;
  // A master that is held against the parameter is not widened.
  if (result.stored_before && rule != judge::Rule::kExact && rule != judge::Rule::kReplay) {
    coverage.start_by_policy.add(result);
  }
  if (is_widened(result)) coverage.widened.add(result);
  if (const std::uint64_t rows = rows_left_out(result); rows > 0) {
    coverage.trimmed_alike =
        coverage.trimmed.empty() || (coverage.trimmed_alike && rows == coverage.rows_trimmed);
    coverage.trimmed.add(result);
    coverage.rows_trimmed = std::max(coverage.rows_trimmed, rows);
  }
  if (result.outcome == Outcome::kMatch && result.comparison->tolerance.kinks > 0) {
    coverage.kinks.add(result);
  }
  if (stats.elements == 0) coverage.without_elements.add(result);
  if (stats.nonfinite_equal > 0) coverage.not_finite.add(result);
  const bool zero = stats.finite > 0 && stats.finite == stats.elements && stats.sum_r2 == 0 &&
                    stats.sum_c2 == 0 && !stats.largest;
  if (zero && !result.exact && is_computed(result.key.kind)) coverage.zero.add(result);
}

void add_outcome(const TensorComparison& result, Coverage& coverage) {
  switch (result.outcome) {
    case Outcome::kMatch:
      ++coverage.agree;
      break;
    case Outcome::kUnreadable:
      coverage.unreadable.add(result);
      break;
    case Outcome::kNotRecorded:
      if (result.other_implementation) {
        coverage.other_implementation.add(result);
        break;
      }
      (result.lacking == TraceSide::kReference ? coverage.not_recorded_by_reference
                                               : coverage.not_recorded_by_candidate)
          .add(result);
      break;
    case Outcome::kBelowNoiseFloor:
      coverage.below_noise_floor.add(result);
      break;
    case Outcome::kNotJudged:
      coverage.not_judged.add(result);
      break;
    case Outcome::kAfterRoutingFlip:
      coverage.after_routing_flips.add(result);
      break;
    case Outcome::kRoutingFlip:
      coverage.routing_flips.add(result);
      break;
    case Outcome::kDiverged:
    case Outcome::kReplicaConflict:
    case Outcome::kMissing:
    case Outcome::kExtra:
    case Outcome::kIncomparable:
    case Outcome::kSkippedByRule:
      break;
  }
}

bool is_checked(const TensorComparison& result) {
  return judge::is_bad(result.outcome) || result.outcome == Outcome::kRoutingFlip ||
         (result.outcome == Outcome::kMatch && !is_mostly_not_finite(result));
}

}  // namespace

Coverage coverage_of(const CompareReport& report) {
  Coverage coverage;
  coverage.tensors = report.results.size();
  for (const TensorComparison& result : report.results) {
    if (result.outcome == Outcome::kSkippedByRule) {
      if (result.skipped == SkippedFor::kPolicy) coverage.skipped_by_policy.add(result);
      if (result.skipped == SkippedFor::kMap) coverage.dropped_by_map.add(result);
      continue;
    }
    ++coverage.selected;
    add_outcome(result, coverage);
    if (result.comparison) add_values(result, coverage);
    if (!is_computed(result.key.kind) || result.other_implementation) continue;
    if (is_excused(report, result)) continue;
    ++coverage.computed;
    if (!is_checked(result)) ++coverage.computed_unchecked;
  }
  return coverage;
}

}  // namespace ttrace::comparison
