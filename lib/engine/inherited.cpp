#include "engine/inherited.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace ttrace::engine {

bool has_fp8(const std::string& precision) {
  std::string lower = precision;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return lower.find("fp8") != std::string::npos;
}

std::map<std::uint64_t, double> parameters_apart(const std::vector<report::Result>& results) {
  struct Sums {
    double d2 = 0;
    double r2 = 0;
  };
  std::set<std::uint64_t> updated;
  std::map<std::uint64_t, Sums> sums;
  for (const report::Result& result : results) {
    if (!result.comparison || result.exact) continue;
    if (result.key.kind == trace::Kind::kParamAfterStep) updated.insert(result.key.step + 1);
    if (result.key.kind != trace::Kind::kParam) continue;
    const compare::TileStats& stats = result.comparison->measurement.total;
    if (!std::isfinite(stats.sum_d2) || !std::isfinite(stats.sum_r2)) continue;
    Sums& step = sums[result.key.step];
    step.d2 += stats.sum_d2;
    step.r2 += stats.sum_r2;
  }
  std::map<std::uint64_t, double> apart;
  for (const auto& [step, sum] : sums) {
    if (updated.contains(step) && sum.r2 > 0) apart.emplace(step, std::sqrt(sum.d2 / sum.r2));
  }
  return apart;
}

bool inherits(trace::Kind kind) {
  return kind != trace::Kind::kParam && kind != trace::Kind::kBuffer &&
         kind != trace::Kind::kOptimizerState && kind != trace::Kind::kIndex;
}

}  // namespace ttrace::engine
