// The coherence of noise: the fraction of a tensor's noise that lies along the tensor itself.
// Rounding errors are incoherent, so they hardly change the scale of a tensor, which is exactly
// what a wrong factor changes. Scale errors therefore have a separate, many times tighter
// tolerance.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "trace/key.h"

namespace ttrace::judge {

// The allowed scale error of a whole tensor, in units of m·c·w·N. Healthy runs reach 0.37 of the
// limit, and 0.65 in the second step of AdamW.
inline constexpr double kScaleMultiplier = 2;
// The same for a slice, whose w is larger because its noise has few independent values. Healthy
// runs reach 0.51 of the limit, and 0.65 in the second step of AdamW.
inline constexpr double kSliceScaleMultiplier = 1;
// The share of the floor f·ε that is allowed on top.
inline constexpr double kScaleFloor = 0.5;
// The resolution of binary64 sums over many elements: no smaller scale error is judged, whatever
// the precision of the tensor.
inline constexpr double kScaleResolution = 0x1p-40;
// Tensors with fewer elements are not judged by scale.
inline constexpr std::uint64_t kFewestForScale = 16;

// "layers.3.mlp.fc1" -> "layers.*.mlp.fc1": the same for all layers and all experts.
std::string name_pattern(std::string_view name);

// Collects the coherence c = |⟨R' - R, R⟩| / (‖R' - R‖·‖R‖) of all tensors. A few noise runs say
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
  // eight times; 0 if there is none. Empty if no tensor of its kind is known, and for optimizer
  // states: in second moments a few elements dominate, so that most of the noise lies along the
  // tensor (a healthy bf16 run reached 0.88 of the limit). Tensors of few elements do not count for
  // the mean of the kind.
  std::vector<double> of(const trace::TensorKey& key, std::size_t dims) const;

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

}  // namespace ttrace::judge
