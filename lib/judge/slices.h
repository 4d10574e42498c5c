// Judges slices of a tensor, each against the noise of the same elements: a fault in one shard of
// eight must not hide behind seven good ones. Scale errors of the tensor and its slices have a
// separate, many times tighter tolerance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/heap_optional.h"
#include "judge/noise_rule.h"
#include "judge/tolerance.h"
#include "measure/measure.h"
#include "trace/key.h"

namespace ttrace::judge {

// The noise of a slice has few independent values, however many elements there are: the rows of an
// attention gradient rise and fall together. If all elements counted as independent, healthy blocks
// would exceed their limits. With 8, shards and blocks reach 0.92 of them with three noise runs
// (tests/power/RESULTS.md, "Closest to the limit").
inline constexpr std::uint64_t kMostFreedomOfSlice = 8;

// Allowed of a slice that is zero in the reference and all noise runs, for each element, in units
// of the ε of binary32 and the root mean square of the whole tensor. Some kernels multiply by zero
// padding and some transform it, as those of cuDNN do: what is zero in one run is then rounding in
// the other.
inline constexpr double kRoundingOfZeros = 16;

// The multiplier of the largest difference of a single element, relative to the tensor's: maxima
// scatter more than norms. Healthy fp32, fp16 and fp8 runs reach 0.32 of the limit with three noise
// runs.
inline constexpr double kOutlierWidening = 2;

// The allowed scale error of a whole tensor, in units of m·c·w·N. The scales of healthy runs reach
// 0.87 of their limits with three noise runs and 0.93 with one (tests/power/RESULTS.md, "Closest to
// the limit").
inline constexpr double kScaleMultiplier = 2;
// The same for a slice, whose w is larger because its noise has few independent values.
inline constexpr double kSliceScaleMultiplier = 1;
// The share of the floor f·ε that is allowed on top.
inline constexpr double kScaleFloor = 0.5;
// What is allowed of a slice on top, in units of the ε of binary32: all elements of a row may share
// the rounding of one number, such as the probability that a loss divides by, and another device
// rounds functions in another way. A block of four rows of a policy's gradient on a GPU, healthy,
// was 4.8 ε off, where the noise run on the CPU allowed 2.9 ε.
inline constexpr double kScaleFloorOfSlices = 4;
// The same where a module normalizes channels: all elements of a channel share the rounding of its
// mean and 1/σ, which kernels add up in binary32, one pixel after the other where channels lie side
// by side. A healthy RegNet with channels last is off by 2.9 ε.
inline constexpr double kScaleFloorOfChannels = 8;
// The resolution of binary64 sums over many elements: no smaller scale error is judged, whatever
// the precision of the tensor.
inline constexpr double kScaleResolution = 0x1p-40;
// A tensor is unlike its kind if its own coherence is more than this many times that of its kind:
// the gradient of a classifier's input, for example, is made of as many numbers as there are
// classes. By chance three runs of a tensor show twice as much once in 130 tensors.
inline constexpr double kUnlikeItsKind = 2;
// Tensors with fewer elements are not judged by scale.
inline constexpr std::uint64_t kFewestForScale = 16;

// "layers.3.mlp.fc1" -> "layers.*.mlp.fc1": the same for all layers and all experts.
std::string name_pattern(std::string_view name);

// Collects the coherence c = |⟨R' - R, R⟩| / (‖R' - R‖·‖R‖) of all tensors: the fraction of a
// tensor's noise that lies along the tensor itself. Rounding errors are incoherent, so they hardly
// change the scale of a tensor, which is exactly what a wrong factor changes. A few noise runs say
// little about c of one tensor, but tensors of the same kind and name pattern are alike over all
// layers, micro-batches and steps, so their values are averaged.
class Coherence {
 public:
  // `coherence`: the root mean square of c over the runs, of the whole tensor and then of the
  // blocks of every dimension; 0 for a dimension that is not cut.
  void add(const trace::TensorKey& key, const std::vector<double>& coherence,
           std::uint64_t elements);

  // Returns c of a tensor, then of the blocks of each of its `dims` dimensions: the root mean
  // square over the tensors with its kind and pattern, together with the mean of its kind counted
  // eight times, or its own if that is more than kUnlikeItsKind times as much; 0 if there is none.
  // `own`: what was added of the tensor itself, may be empty. Empty if no tensor of its kind is
  // known, and for optimizer states: in second moments a few elements dominate, so that most of the
  // noise lies along the tensor (a healthy bf16 run reached 0.88 of the limit). Tensors of few
  // elements do not count for the mean of the kind.
  std::vector<double> of(const trace::TensorKey& key, std::size_t dims,
                         const std::vector<double>& own = {}) const;

 private:
  struct Mean {
    double sum = 0;
    double count = 0;
  };
  // The last key is 0 for the whole tensor and 1 + d for blocks of dimension d; in kinds_ it is 1
  // for blocks of any dimension.
  std::map<std::tuple<trace::Kind, std::string, std::size_t>, Mean> alike_;
  std::map<std::pair<trace::Kind, std::size_t>, Mean> kinds_;
};

// A box of a tensor, or its scale, that is judged on its own.
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

  base::HeapOptional<Slice> worst;  // the slice with the largest used share
  std::uint64_t beyond = 0;         // the number of slices beyond their tolerance
  std::vector<Slice> found;         // those slices, worst first, at most `most_kept`
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
