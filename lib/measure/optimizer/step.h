// One optimizer step of one parameter: its hyperparameters, the precisions of a correct
// implementation, and the constants that they make. update_formula.h computes an element of it in
// binary64, with a bound on the rounding error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "measure/optimizer/update_constants.h"
#include "tensor/dtype.h"

namespace ttrace::measure {

enum class Algorithm {
  kNone,   // in no parameter group: the parameter stays as it is
  kSgd,    // torch.optim.SGD
  kAdam,   // torch.optim.Adam: weight decay is part of the gradient
  kAdamW,  // torch.optim.AdamW: weight decay shrinks the parameter
};

struct Hyperparameters {
  Algorithm algorithm = Algorithm::kNone;
  double lr = 0;
  double weight_decay = 0;
  bool maximize = false;
  std::uint64_t updates = 1;        // of the parameter, this one included
  std::optional<double> clip_norm;  // positive
  std::string clipped_by;           // name of the norm; empty: of all gradients
  // SGD
  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;
  // Adam, AdamW
  double beta1 = 0;
  double beta2 = 0;
  double eps = 0;
  bool amsgrad = false;
};

// Precisions in which the optimizer computed and stored, as unit roundoffs (half the spacing of the
// numbers just above 1): f32 2^-24, bf16 2^-8, f16 2^-11.
struct StepRoundoffs {
  double working = 0;          // of the arithmetic of the update
  double stored = 0;           // of a last rounding on storing the parameter; 0 if there is none
  double parameter = 0;        // relative error of the parameter as recorded before the step
  double gradient = 0;         // relative error of the gradient once it is clipped
  double smallest = 0;         // absolute error of the arithmetic near zero
  double stored_smallest = 0;  // and of the parameter's stored type, where that is coarser
  double largest = 0;          // largest finite number of the arithmetic
  // Constants (betas, bias corrections) were computed in single precision, as in fused and
  // capturable implementations. The update is then known to about 1e-5 of itself in the first
  // steps.
  bool single_constants = false;

  bool operator==(const StepRoundoffs&) const = default;
};

// Returns nothing for types in which no optimizer computes.
std::optional<double> unit_roundoff(tensor::DType dtype);

// Returns the absolute error of a result near zero: the smallest normal number where subnormal ones
// may be flushed to zero; their spacing in f16, where they never are.
double smallest_rounding(tensor::DType dtype);
double largest_finite(tensor::DType dtype);

// A step's formula as plain data.
struct UpdateStep {
  Hyperparameters hyperparameters;
  StepRoundoffs rounding;
  double clip = 1;
};

// Derives the constants of the step; `has_buffer`: SGD's momentum buffer exists. The replayed value
// is a correct implementation's; the bound is the largest distance from it that one may have:
// infinite or NaN where rounding may change anything (a denominator that may become zero). NaN and
// Inf propagate as in the optimizer. Every element depends on its own inputs alone.
UpdateFormula update_formula(const UpdateStep& step, bool has_buffer);

// Returns min(1, clip_norm / (norm + 1e-6)), as torch and Megatron clip; 1 if the norm is NaN.
double clip_coefficient(double clip_norm, double norm);

}  // namespace ttrace::measure
