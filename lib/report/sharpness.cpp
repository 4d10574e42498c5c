#include "report/sharpness.h"

#include <algorithm>
#include <map>

namespace ttrace::report {
namespace {

std::string_view precision_name(double epsilon) {
  for (const tensor::DType dtype :
       {tensor::DType::kFloat64, tensor::DType::kFloat32, tensor::DType::kFloat16,
        tensor::DType::kBFloat16, tensor::DType::kFloat8E4M3, tensor::DType::kFloat8E5M2}) {
    if (tensor::epsilon(dtype) == epsilon) return dtype_short_name(dtype);
  }
  return "other";
}

}  // namespace

std::vector<Sharpness> sharpness_of(const CompareReport& report) {
  std::map<double, std::vector<double>, std::greater<>> allowed;  // by ε
  for (const Result& result : report.results) {
    if (result.outcome != verdict::Outcome::kMatch || !result.comparison || result.exact) continue;
    const Comparison& comparison = *result.comparison;
    const double norm = compare::reference_norm(comparison.measurement.total);
    const tolerance::Rule rule = comparison.tolerance.rule;
    if (comparison.replay || rule == tolerance::Rule::kExact || !(norm > 0)) continue;
    allowed[comparison.tolerance.epsilon].push_back(comparison.tolerance.allowed_norm() / norm);
  }
  std::vector<Sharpness> found;
  for (auto& [epsilon, values] : allowed) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    found.push_back({precision_name(epsilon), values.size(), *middle,
                     *std::max_element(values.begin(), values.end())});
  }
  return found;
}

}  // namespace ttrace::report
