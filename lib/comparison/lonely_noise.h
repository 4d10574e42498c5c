// Judges a tensor whose noise stands alone by the noise of what stands beside it.
#pragma once

#include <string>
#include <vector>

#include "comparison/tensor_comparison.h"

namespace ttrace::comparison {

// Scales noise that is no rounding (judge/lonely_noise.h), of perturbed runs or a calibration, down
// to the largest that the tensor's kind and module show. `results` have been measured and not yet
// judged. Returns a warning that names the tensors, or none.
std::vector<std::string> judge_lonely_noise_by_neighbours(std::vector<TensorComparison>& results);

}  // namespace ttrace::comparison
