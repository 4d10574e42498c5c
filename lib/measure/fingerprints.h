// Fingerprints that find equal tensors in two traces, each read once: exact hashes by slices, and
// linear sketches for values that agree up to rounding.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "measure/measure.h"

namespace ttrace::measure {

// The hashes of rows show where rows belong if one framework has three tensors that another one
// joins.
struct SliceHashes {
  std::uint64_t whole = 0;  // of shape and all values
  // by_dim[d][i]: hash of the values with index i in dimension d and their places in the other
  // dimensions. Covers all dimensions if there are at most two, else only the first.
  std::vector<std::vector<std::uint64_t>> by_dim;
};

// Hashes values rounded to `precision`. Throws an input error if a shard cannot be read.
SliceHashes slice_hashes(const TensorRef& tensor, tensor::DType precision);

// Returns a hash of `hashes` in their order.
std::uint64_t hash_of(const std::vector<std::uint64_t>& hashes);

// Sums of a tensor's values with random signs. The distance of two sketches estimates the distance
// of the tensors.
using Sketch = std::array<double, 64>;

// Throws an input error if a shard cannot be read.
Sketch sketch_of(const TensorRef& tensor);

// Estimates ‖a - b‖ over the larger of ‖a‖ and ‖b‖; 0 for two tensors of zeros, infinite if a value
// is not finite.
double sketch_distance(const Sketch& a, const Sketch& b);

// Returns whether all values are equal once both are rounded to the coarser of the two
// floating-point types (NaN equals NaN). The shapes must be equal. Throws an input error if a shard
// cannot be read.
bool same_values(const TensorRef& a, const TensorRef& b);

// Returns whether shapes and all values are equal as they are (NaN equals nothing). Throws an input
// error if a shard cannot be read.
bool same_numbers(const TensorRef& a, const TensorRef& b);

}  // namespace ttrace::measure
