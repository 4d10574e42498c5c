// One optimizer step of one parameter, element by element in binary64, and how far the roundings of
// a correct implementation may carry its result. Follows torch.optim.SGD, Adam and AdamW (2.13);
// the bounds are a running error analysis of their operations in any order in which they are
// implemented (single tensor, foreach, fused, Apex and TransformerEngine).
#pragma once

#include <span>

#include "update/hyperparameters.h"
#include "update/rounding.h"

namespace ttrace::update {

// What the step begins with, all of one length; a state that does not exist yet is empty.
struct Inputs {
  std::span<const double> parameter;
  std::span<const double> gradient;  // before clipping
  double clip = 1;                   // by which clipping multiplies it
  std::span<const double> momentum_buffer;
  std::span<const double> exp_avg;
  std::span<const double> exp_avg_sq;
  std::span<const double> max_exp_avg_sq;
};

// values[i]: the updated parameter. bounds[i]: how far a correct one may be from it; infinite or
// NaN where roundings may change anything (a denominator that they may make zero). NaN and Inf
// propagate as they do in the optimizer. Every element depends on its own inputs alone.
void replay(const Hyperparameters& hyperparameters, const Rounding& rounding, const Inputs& inputs,
            std::span<double> values, std::span<double> bounds);

// min(1, clip_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ and Megatron clip.
double clip_coefficient(double clip_norm, double norm);

}  // namespace ttrace::update
