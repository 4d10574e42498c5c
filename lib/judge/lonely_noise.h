// Finds noise that is no rounding: what one tensor of a perturbed run shows alone. Rounding goes
// through a whole step, so that where it is large in a tensor, it is in what stands beside it, too:
// kinks and routing flips change a module's values and their gradients together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trace/key.h"

namespace ttrace::judge {

// Noise that is so many times what its kind and its module show is no rounding: healthy noise
// reaches 7.1 times that (lib/judge/README.md).
inline constexpr double kLonely = 100;
inline constexpr std::size_t kFewestWithNoise =
    4;  // of two tensors neither is known to be the usual one

class LonelyNoise {
 public:
  // `noise`: ‖R' - R‖; `norm`: ‖R‖; `epsilon`: of the type that the tensor was computed in. Kinds
  // other than values and gradients of modules, parameters and their gradients, and losses are left
  // out: Adam turns a gradient that is all noise into a whole step.
  void add(const trace::TensorKey& key, double noise, double norm, std::uint64_t elements,
           double epsilon);

  struct Found {
    trace::TensorKey key;
    double times = 0;  // its noise over the largest that its kind and its module show; finite
  };
  // Noise is measured in units of ‖R‖ + √n · the usual root mean square of the kind, or that of the
  // module's largest tensor of the kind if it is larger: gradients that cancel have much of it for
  // their size. It is held against the median of its kind in the step,
  // the largest of the other tensors of its module and those in it in the step (without any: the
  // largest other one of its kind), the largest of the step's parameters, which is 0 before the
  // first update, and ε; that of a loss against the largest of the step's outputs. Parameters are
  // none of those found. In the order of the keys.
  std::vector<Found> find() const;

 private:
  struct Tensor {
    trace::TensorKey key;
    double noise;
    double norm;
    std::uint64_t elements;
    double epsilon;
  };
  std::vector<Tensor> tensors_;
};

}  // namespace ttrace::judge
