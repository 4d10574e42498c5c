// Parts of a tensor, each judged against the noise of the same elements: a fault in one shard of
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

// The noise of a part lies along few directions, however many elements it has: the rows of an
// attention's gradient rise and fall together. Taken as independent, a healthy 6-layer f32 model
// with one noise run stood at 1.64 of its limit (rows of layers.5.attn.qkv.weight's gradient) and
// with three at 0.69; with 8 directions they stand at 0.73 and 0.41.
inline constexpr std::uint64_t kMostFreedomOfSlice = 8;

// A single element may be this many times as far off as the noise runs' own farthest, where a
// tensor may be four times as far off as their norm: farthest elements scatter more than norms do.
// Healthy runs reach 0.29 of it with one noise run.
inline constexpr double kOutlierWidening = 2;

struct Slice {
  enum class What {
    kShard,    // what the same ranks of the candidate hold
    kBlock,    // one of the parts that a dimension is cut into
    kElement,  // the largest difference
    kScale,    // the whole, a shard or a block, by how much larger or smaller it is
  };

  What what = What::kShard;
  std::vector<tensor::Box> boxes;    // at least one
  std::vector<std::uint64_t> ranks;  // of a shard
  std::string part;                  // of a tensor made of several: which of them
  std::size_t dim = 0;               // of a block
  double difference_norm = 0;
  double reference_norm = 0;
  double times = 1;  // its multiplier over the tensor's
  Tolerance tolerance;

  // How much of the allowed error is used; infinite where nothing is allowed.
  double used_share() const;
  // The smallest multiplier of the tensor with which the part would pass.
  double passing_multiplier() const;
};

struct SliceJudgement {
  static constexpr std::size_t kMostKept = 16;  // unless all are asked for

  std::optional<Slice> worst;  // the one with the largest used share
  std::uint64_t beyond = 0;    // how many are beyond their tolerance
  std::vector<Slice> found;    // the worst of those, worst first
};

// Judges the candidate's shards, blocks along every dimension (from `measurement.cells`, which lie
// as `estimate.grid` says) and the largest difference. Values that are not finite are left to the
// tensor's own verdict. `own_rounding`: of every element of a tensor of one dimension, what the
// reference's own accumulator rounded away, which is allowed too; or empty. `coherence`: of the
// tensor's noise and of that of the parts of its dimensions, as judge::Coherence has it; where
// it is missing or 0, scales are not judged apart. At most `most_kept` of those beyond are kept.
SliceJudgement judge_slices(const measure::Measurement& measurement, const NoiseEstimate& estimate,
                            double epsilon, const NoiseConstants& constants,
                            const std::vector<double>& own_rounding = {},
                            const std::vector<double>& coherence = {},
                            std::size_t most_kept = SliceJudgement::kMostKept);

}  // namespace ttrace::judge
