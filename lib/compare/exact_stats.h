// Integers and booleans, which are compared exactly.
#pragma once

#include <cstdint>
#include <vector>

#include "compare/tensor_reader.h"
#include "compare/tile_stats.h"
#include "tensor/dtype.h"

namespace ttrace::compare {

class ExactBand {
 public:
  ExactBand(tensor::DType reference, tensor::DType candidate)
      : reference_is_u64_(reference == tensor::DType::kUInt64),
        candidate_is_u64_(candidate == tensor::DType::kUInt64) {}

  void read(TensorReader& reference, const tensor::Box& band);
  // Adds the statistics of `piece`, which lies within the band. `unequal` counts exact differences,
  // and `largest` is the largest of these (its three numbers rounded to binary64 after that); the
  // sums are those of the numbers rounded to binary64.
  void add(TensorReader& candidate, const tensor::Box& piece, TileStats& into);

 private:
  bool reference_is_u64_;
  bool candidate_is_u64_;
  tensor::Box band_;
  std::vector<std::int64_t> band_values_;
  std::vector<std::int64_t> reference_;
  std::vector<std::int64_t> candidate_;
  std::vector<double> reference_numbers_;
  std::vector<double> candidate_numbers_;
};

}  // namespace ttrace::compare
