// Fingerprints of a tensor by slices: where one framework has three tensors and another has them in
// one, the rows say which belong where.
#pragma once

#include <cstdint>
#include <vector>

#include "compare/measure.h"

namespace ttrace::compare {

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

}  // namespace ttrace::compare
