// Fingerprints by which tensors of two traces are found to be one, each read once: exact ones by
// slices, and linear sketches of values that agree but for rounding.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "measure/measure.h"

namespace ttrace::measure {

// Where one framework has three tensors and another has them in one, the rows say which belong
// where.
struct SliceHashes {
  std::uint64_t whole = 0;  // of shape and all values
  // by_dim[d][i]: of the values of index i of dimension d, by their places in the other dimensions.
  // Of all dimensions where there are at most two, else of the first alone.
  std::vector<std::vector<std::uint64_t>> by_dim;
};

// Values count as they are once rounded to `precision`. Throws an input error if a shard cannot be
// read.
SliceHashes slice_hashes(const TensorRef& tensor, tensor::DType precision);

// A number for the order of `hashes`.
std::uint64_t hash_of(const std::vector<std::uint64_t>& hashes);

// Sums of a tensor's values with random signs, whose distance estimates the distance of the
// tensors.
using Sketch = std::array<double, 64>;

// Throws an input error if a shard cannot be read.
Sketch sketch_of(const TensorRef& tensor);

// About ‖a - b‖ over the larger of ‖a‖ and ‖b‖; 0 for two tensors of zeros, infinite if a value is
// not finite.
double sketch_distance(const Sketch& a, const Sketch& b);

// Whether two tensors hold the same numbers, perhaps in types of different precision.

// Whether all values are equal once both are rounded to the coarser of the two floating-point types
// (NaN equals NaN). The shapes must be equal. Throws an input error if a shard cannot be read.
bool same_values(const TensorRef& a, const TensorRef& b);

}  // namespace ttrace::measure
