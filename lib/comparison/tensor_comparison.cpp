#include "comparison/tensor_comparison.h"

#include <algorithm>
#include <limits>

namespace ttrace::comparison {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double ratio(double part, double whole) {
  if (part == 0) return 0;
  return whole > 0 ? part / whole : kInfinity;
}

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
