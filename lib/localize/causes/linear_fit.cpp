#include "localize/causes/linear_fit.h"

#include <algorithm>
#include <cmath>

namespace ttrace::localize {

void FitSums::add(const std::vector<double>& x, double y) {
  const std::size_t n = x.size();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i; j < n; ++j) xx[i * n + j] += x[i] * x[j];
    xy[i] += x[i] * y;
  }
  yy += y * y;
}

std::optional<LinearFit> fit(const FitSums& sums) {
  // Cholesky: xx = L·Lᵀ.
  constexpr double kLeastIndependent = 1e-9;  // share of ‖x_i‖² that no other x has
  const std::size_t n = sums.xy.size();
  std::vector<double> lower(n * n, 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double value = sums.xx[j * n + i];
      for (std::size_t k = 0; k < j; ++k) value -= lower[i * n + k] * lower[j * n + k];
      if (i != j) {
        lower[i * n + j] = value / lower[j * n + j];
      } else if (value > kLeastIndependent * sums.xx[i * n + i]) {
        lower[i * n + i] = std::sqrt(value);
      } else {
        return std::nullopt;
      }
    }
  }
  std::vector<double> w = sums.xy;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) w[i] -= lower[i * n + k] * w[k];
    w[i] /= lower[i * n + i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) w[i] -= lower[k * n + i] * w[k];
    w[i] /= lower[i * n + i];
  }
  double explained = 0;
  for (std::size_t i = 0; i < n; ++i) explained += w[i] * sums.xy[i];
  return LinearFit{std::move(w), std::max(0.0, sums.yy - explained)};
}

}  // namespace ttrace::localize
