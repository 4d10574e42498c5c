// A linear sketch: a few sums of a tensor's values with random signs, whose distance estimates the
// distance of the tensors. It finds values that agree but for rounding among many, reading each
// once.
#pragma once

#include <array>

#include "compare/measure.h"

namespace ttrace::compare {

using Sketch = std::array<double, 64>;

// Throws an input error if a shard cannot be read.
Sketch sketch_of(const TensorRef& tensor);

// About ‖a - b‖ over the larger of ‖a‖ and ‖b‖; 0 for two tensors of zeros, infinite if a value is
// not finite.
double sketch_distance(const Sketch& a, const Sketch& b);

}  // namespace ttrace::compare
