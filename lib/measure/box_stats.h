// Statistics of one slab: a dense part of a tensor that is in memory, decoded.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "measure/in_memory_tensor.h"
#include "measure/measure.h"
#include "measure/tensor_reader.h"
#include "measure/tile_stats.h"
#include "tensor/box.h"
#include "tensor/dtype.h"

namespace ttrace::measure {

// `reference` and `candidate`: the values of `box` (coordinates of the logical tensor) in row-major
// order. Non-finite values are classified by position before any arithmetic and left out of the
// sums.
TileStats slab_stats(const tensor::Box& box, std::span<const double> reference,
                     std::span<const double> candidate);

// ‖A - B‖² over the slab. A pair with one non-finite value, or two different ones, makes it
// infinite; pairs of equal non-finite values count nothing.
double squared_distance(std::span<const double> a, std::span<const double> b);

// Integers and booleans, which are compared exactly.

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

// The squared difference of two tensors by index: of every row, every column, and so on.

// errors[d][i]: Σ (C - R)² over the elements whose index along dimension d is i. Pairs that are not
// finite on either side count nothing. Both have one shape; they are read once, in bounded memory.
// Throws an input error if a shard cannot be read.
std::vector<std::vector<double>> squared_errors_by_index(const TensorRef& reference,
                                                         const TensorRef& candidate);

// Statistics of a box that lies within two larger ones which are in memory.

// Adds the statistics of `box` to `into`. The same bits whatever larger boxes hold it, and whether
// they are stored or decoded.
void add_box(BoxValues& reference, BoxValues& candidate, const tensor::Box& box, TileStats& into);

}  // namespace ttrace::measure
