// In which precisions an optimizer computed and stored: what its roundings may add up to.
#pragma once

#include <optional>

#include "tensor/dtype.h"

namespace ttrace::update {

// Unit roundoffs (half the spacing of the numbers just above 1): f32 2^-24, bf16 2^-8, f16 2^-11.
struct Rounding {
  double working = 0;          // of the arithmetic of the update
  double stored = 0;           // of a last rounding on storing the parameter; 0 if there is none
  double parameter = 0;        // relative error of the parameter as recorded before the step
  double gradient = 0;         // relative error of the gradient once it is clipped
  double smallest = 0;         // absolute rounding of the arithmetic near zero
  double stored_smallest = 0;  // and of the parameter's stored type, where that is coarser
  double largest = 0;          // finite number of the arithmetic
  // Constants (betas, bias corrections) were made in single precision, as fused and capturable
  // implementations do. The update is then known to about 1e-5 of itself in the first steps.
  bool single_constants = false;

  bool operator==(const Rounding&) const = default;
};

// Nothing for types in which no optimizer computes.
std::optional<double> unit_roundoff(tensor::DType dtype);

// Absolute error of a result near zero: where subnormal numbers may be flushed to zero the smallest
// normal one, in f16, where they never are, their spacing.
double smallest_rounding(tensor::DType dtype);
double largest_finite(tensor::DType dtype);

}  // namespace ttrace::update
