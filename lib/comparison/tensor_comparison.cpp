#include "comparison/tensor_comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ttrace::comparison {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double ratio(double part, double whole) {
  if (part == 0) return 0;
  return whole > 0 ? part / whole : kInfinity;
}

}  // namespace

TruthRatios truth_ratios(const std::vector<const TensorTruth*>& truths) {
  TruthRatios out;
  std::vector<double> finite;
  for (std::size_t i = 0; i < truths.size(); ++i) {
    if (truths[i] == nullptr) continue;
    ++out.compared;
    const measure::TruthErrors& errors = truths[i]->errors;
    const auto ratio = measure::error_ratio(errors);
    if (errors.elements > 0 && errors.reference_error_norm == 0) {
      ++out.reference_exact;
    } else if (!ratio) {
      ++out.unusable;
    }
    if (!ratio || !std::isfinite(*ratio)) continue;
    finite.push_back(*ratio);
    if (out.worst && *ratio <= *out.worst) continue;
    out.worst = ratio;
    out.worst_at = i;
  }
  if (finite.empty()) return out;
  std::sort(finite.begin(), finite.end());
  const std::size_t half = finite.size() / 2;
  out.median = finite.size() % 2 == 1 ? finite[half] : (finite[half - 1] + finite[half]) / 2;
  return out;
}

namespace {

// Of a replica conflict alone: copies that differ by rounding are no error.
double distance_of_copies(const TensorComparison& result) {
  const bool conflict = result.outcome == judge::Outcome::kReplicaConflict;
  return conflict ? result.comparison->measurement.replicas->distance_norm : 0;
}

}  // namespace

std::vector<measure::RankBoxes> parts_of(const TensorComparison& result) {
  std::vector<measure::RankBoxes> parts;
  if (!result.comparison) return parts;
  for (const measure::BlockStats& block : result.comparison->measurement.blocks) {
    parts.push_back(*block.owner);
  }
  return parts;
}

double relative_error(const measure::Measurement& measurement) {
  return ratio(measure::difference_norm(measurement.total),
               measure::reference_norm(measurement.total));
}

double used_share(const ComparedNumbers& numbers) {
  if (numbers.measurement.total.nonfinite_different > 0) return kInfinity;
  const double whole =
      ratio(measure::difference_norm(numbers.measurement.total), numbers.tolerance.allowed_norm());
  const auto& worst = numbers.slices->worst;
  return worst ? std::max(whole, worst->used_share()) : whole;
}

double passing_multiplier(const ComparedNumbers& numbers) {
  if (numbers.measurement.total.nonfinite_different > 0) return kInfinity;
  double multiplier = judge::passing_multiplier(
      numbers.tolerance, measure::difference_norm(numbers.measurement.total));
  for (const judge::Slice& slice : numbers.slices->found) {
    multiplier = std::max(multiplier, slice.passing_multiplier());
  }
  return multiplier;
}

double told_error(const TensorComparison& result) {
  const measure::Measurement& measured = result.comparison->measurement;
  if (measured.total.nonfinite_different > 0) return std::numeric_limits<double>::quiet_NaN();
  const double norm = measure::reference_norm(measured.total);
  return std::max(relative_error(measured), ratio(distance_of_copies(result), norm));
}

double told_share(const TensorComparison& result) {
  const ComparedNumbers& numbers = *result.comparison;
  if (numbers.measurement.total.nonfinite_different > 0) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return std::max(used_share(numbers),
                  ratio(distance_of_copies(result), numbers.tolerance.allowed_norm()));
}

double told_multiplier(const TensorComparison& result) {
  const ComparedNumbers& numbers = *result.comparison;
  return std::max(passing_multiplier(numbers),
                  judge::passing_multiplier(numbers.tolerance, distance_of_copies(result)));
}

}  // namespace ttrace::comparison
