#include "report/compare_report.h"

#include <algorithm>
#include <limits>

namespace ttrace::report {
namespace {

double ratio(double part, double whole) {
  if (part == 0) return 0;
  return whole > 0 ? part / whole : std::numeric_limits<double>::infinity();
}

}  // namespace

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kMatch:
      return "match";
    case Verdict::kDiverged:
      return "diverged";
    case Verdict::kInconclusive:
      return "inconclusive";
  }
  return "";
}

int exit_code(Verdict verdict) {
  switch (verdict) {
    case Verdict::kMatch:
      return 0;
    case Verdict::kDiverged:
      return 1;
    case Verdict::kInconclusive:
      return 3;
  }
  return 3;
}

double relative_error(const compare::Measurement& measurement) {
  return ratio(compare::difference_norm(measurement.total),
               compare::reference_norm(measurement.total));
}

double used_share(const Comparison& comparison) {
  const double whole = ratio(compare::difference_norm(comparison.measurement.total),
                             comparison.tolerance.allowed_norm());
  const auto& worst = comparison.slices.worst;
  return worst ? std::max(whole, worst->used_share()) : whole;
}

double passing_multiplier(const Comparison& comparison) {
  double multiplier = tolerance::passing_multiplier(
      comparison.tolerance, compare::difference_norm(comparison.measurement.total));
  for (const verdict::Slice& slice : comparison.slices.found) {
    multiplier = std::max(multiplier, slice.passing_multiplier());
  }
  return multiplier;
}

}  // namespace ttrace::report
