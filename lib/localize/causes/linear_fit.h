// Least squares with few unknowns, from sums.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace ttrace::localize {

// Sums over the elements of some tensors x_0, x_1, ... and y.
struct FitSums {
  explicit FitSums(std::size_t unknowns) : xx(unknowns * unknowns, 0.0), xy(unknowns, 0.0) {}

  void add(const std::vector<double>& x, double y);

  std::vector<double> xx;  // row-major
  std::vector<double> xy;
  double yy = 0;
};

struct LinearFit {
  std::vector<double> weights;
  double residual2 = 0;
};

// The weights w with the least ‖y - Σ w_i·x_i‖²; nothing if the x are not independent.
std::optional<LinearFit> fit(const FitSums& sums);

}  // namespace ttrace::localize
