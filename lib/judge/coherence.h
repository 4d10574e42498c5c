// How much of a tensor's noise lies along the tensor itself. Rounding errors are incoherent: they
// hardly make a tensor larger or smaller as a whole, which is just what a wrong factor does. So its
// scale has a tolerance of its own, many times as sharp as that of the tensor.
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

// The scale may be off by this many times m·c·w·N. Healthy runs reach 0.37 of what that allows, and
// 0.65 in the second step of AdamW.
inline constexpr double kScaleMultiplier = 2;
// Of a part, whose w is that of few directions, by so many. Healthy runs reach 0.51 of it, and 0.65
// in the second step of AdamW.
inline constexpr double kSliceScaleMultiplier = 1;
// And by this share of the floor, f·ε.
inline constexpr double kScaleFloor = 0.5;
// Sums over many elements in binary64 are good for no less, whatever the tensor's own precision.
inline constexpr double kScaleResolution = 0x1p-40;
// Fewer elements have no scale apart from their values.
inline constexpr std::uint64_t kFewestForScale = 16;

// "layers.3.mlp.fc1" -> "layers.*.mlp.fc1": alike in every layer and every expert.
std::string name_pattern(std::string_view name);

// Three noise runs tell little of one tensor's c = |⟨R' - R, R⟩| / (‖R' - R‖·‖R‖), but tensors of
// one kind and, up to numbers, one name are alike, over all layers, micro-batches and steps.
class Coherence {
 public:
  // `coherence`: root mean square over the runs of a tensor's c and of that of the parts of every
  // dimension; 0 for a dimension that is not cut.
  void add(const trace::TensorKey& key, const std::vector<double>& coherence,
           std::uint64_t elements);

  // c of a tensor and of the parts of each of its `dims` dimensions: the root mean square over
  // those alike, together with eight of its kind's own; 0 where there are none. Empty if none of
  // its kind is known, and for what an optimizer keeps: of squares a few elements make up all, so
  // that most of their noise lies along them (a healthy bf16 run stood at 0.88 of the limit).
  // Tensors of few elements do not count for the kind.
  std::vector<double> of(const trace::TensorKey& key, std::size_t dims) const;

 private:
  struct Mean {
    double sum = 0;
    double count = 0;
  };
  // 0 the whole, 1 + d the parts of dimension d; of a kind, 1 those of any.
  std::map<std::tuple<trace::Kind, std::string, std::size_t>, Mean> alike_;
  std::map<std::pair<trace::Kind, std::size_t>, Mean> kinds_;
};

}  // namespace ttrace::judge
