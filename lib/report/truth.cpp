#include "report/truth.h"

#include <algorithm>
#include <cmath>

namespace ttrace::report {

TruthRatios truth_ratios(const std::vector<const TensorTruth*>& truths) {
  TruthRatios out;
  std::vector<double> finite;
  for (std::size_t i = 0; i < truths.size(); ++i) {
    if (truths[i] == nullptr) continue;
    ++out.compared;
    const compare::TruthErrors& errors = truths[i]->errors;
    const auto ratio = compare::error_ratio(errors);
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

}  // namespace ttrace::report
