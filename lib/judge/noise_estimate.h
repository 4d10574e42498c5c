// What disturbed runs tell of one tensor and of any part of it. Held to the same digits whether it
// was measured just now or read from a calibration, so that both judge alike.
#pragma once

#include <cstddef>
#include <vector>

#include "measure/grid.h"
#include "measure/noise.h"
#include "tensor/box.h"

namespace ttrace::judge {

struct NoiseEstimate {
  double reference_norm = 0;    // ‖R‖
  std::vector<double> norms;    // ‖R' - R‖ of every run; at least one
  std::vector<double> largest;  // max |R' - R| of every run
  measure::Grid grid = measure::Grid({}, {});
  // By cell, the largest noise over the runs, in units of what the cell would have if the largest
  // of `norms` lay evenly over the tensor. Three digits, rounded up. Empty: evenly.
  std::vector<double> cells;

  // How much of it lies along R, as measure::Noise has it: of the whole, and of the parts of every
  // dimension. Three digits, rounded up. Empty where no run differs.
  std::vector<double> coherence = {};

  double norm() const;           // the largest of `norms`
  double largest_value() const;  // the largest of `largest`
};

// Where a run is not finite, where all is zero, and of a single cell, there are no cells.
NoiseEstimate estimate_of(const measure::Noise& noise, const measure::Grid& grid);

// `value` ≥ 0 rounded up to three significant digits.
double three_digits_up(double value);

// The noise of a part of the tensor.
struct PartNoise {
  double norm = 0;    // ‖R' - R‖ over the part
  double spread = 1;  // 1 where it lies evenly; the share of the part that has it where it does not
};
PartNoise noise_within(const NoiseEstimate& estimate, const std::vector<tensor::Box>& boxes);
PartNoise noise_of_all(const NoiseEstimate& estimate);

// Of how many independent numbers the noise of `elements` elements is made: those that carry it.
std::uint64_t freedom(const PartNoise& noise, std::uint64_t elements);

}  // namespace ttrace::judge
