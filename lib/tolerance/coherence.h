// How much of a tensor's noise lies along the tensor itself. Rounding errors are incoherent: they
// hardly make a tensor larger or smaller as a whole, which is just what a wrong factor does. So its
// scale has a tolerance of its own, many times as sharp as that of the tensor.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "trace/key.h"

namespace ttrace::tolerance {

// The scale may be off by this many times m·c·w·N. Healthy runs reach 0.41 of what that allows with
// three noise runs and 0.51 with one.
inline constexpr double kScaleMultiplier = 2;
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
  // `coherence`: root mean square of a tensor's c over the runs.
  void add(const trace::TensorKey& key, double coherence, std::uint64_t elements);

  // c of a tensor: the root mean square over those alike, together with eight of its kind's own;
  // nothing if none of its kind is known. Tensors of few elements do not count for the kind.
  std::optional<double> of(const trace::TensorKey& key) const;

 private:
  struct Mean {
    double sum = 0;
    double count = 0;
  };
  std::map<std::pair<trace::Kind, std::string>, Mean> alike_;
  std::map<trace::Kind, Mean> kinds_;
};

}  // namespace ttrace::tolerance
