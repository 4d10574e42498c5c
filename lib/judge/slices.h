// Judges slices of a tensor, each against the noise of the same elements: a fault in one shard of
// eight must not hide behind seven good ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "judge/noise_rule.h"
#include "judge/tolerance.h"
#include "measure/measure.h"

namespace ttrace::judge {

// The noise of a slice has few independent values, however many elements there are: the rows of an
// attention gradient rise and fall together. If all elements count as independent, a healthy
// 6-layer f32 model reaches 1.64 of its limit with one noise run (rows of the gradient of
// layers.5.attn.qkv.weight) and 0.69 with three; with 8 it reaches 0.73 and 0.41.
inline constexpr std::uint64_t kMostFreedomOfSlice = 8;

// The multiplier of the largest difference of a single element, relative to the tensor's: maxima
// scatter more than norms. Healthy runs reach 0.29 of the limit with one noise run.
inline constexpr double kOutlierWidening = 2;

// A part of a tensor that is judged on its own.
struct Slice {
  enum class What {
    kShard,    // the elements that the same ranks of the candidate hold
    kBlock,    // a range of indices of one dimension
    kElement,  // the element with the largest difference
    kScale,    // the scale of the tensor, of a shard or of a block
  };

  What what = What::kShard;
  std::vector<tensor::Box> boxes;    // at least one
  std::vector<std::uint64_t> ranks;  // of a shard
  std::string part;                  // of a tensor joined from several: the name of this one
  std::size_t dim = 0;               // of a block
  double difference_norm = 0;
  double reference_norm = 0;
  double times = 1;  // its multiplier, relative to the tensor's
  Tolerance tolerance;

  // The share of the allowed error that is used; infinite if nothing is allowed.
  double used_share() const;
  // The smallest multiplier of the tensor with which the slice would pass.
  double passing_multiplier() const;
};

struct SliceJudgement {
  static constexpr std::size_t kMostKept = 16;  // unless the caller asks for all

  std::optional<Slice> worst;  // the slice with the largest used share
  std::uint64_t beyond = 0;    // the number of slices beyond their tolerance
  std::vector<Slice> found;    // those slices, worst first, at most `most_kept`
};

// Judges the candidate's shards, the blocks of every dimension (from `measurement.cells`, which
// must belong to `estimate.grid`), the largest difference, and scales. Values that are not finite
// are left to the verdict on the whole tensor. `own_rounding`: for every element of a
// one-dimensional tensor, the rounding error of the reference's own accumulator, which is allowed
// on top; or empty. `coherence`: from Coherence::of(); a scale is judged only where it is present
// and not 0.
SliceJudgement judge_slices(const measure::Measurement& measurement, const NoiseEstimate& estimate,
                            double epsilon, const NoiseConstants& constants,
                            const std::vector<double>& own_rounding = {},
                            const std::vector<double>& coherence = {},
                            std::size_t most_kept = SliceJudgement::kMostKept);

}  // namespace ttrace::judge
