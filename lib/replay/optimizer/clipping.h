// The norm of a run's own main gradients, step by step: what its recorded gradient norm, and the
// clipping by it, follow from.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "comparison/pairing.h"
#include "comparison/result.h"
#include "trace/source.h"

namespace ttrace::replay {

struct MainGradientNorm {
  double norm = 0;  // ‖g‖ over all main gradients as recorded, in binary64; copies count once
  // Relative: what a job may lose that adds the squares up in the gradients' own precision.
  double rounding = 0;
  std::string problem;  // why it is not known, or empty
};

class MainGradientNorms {
 public:
  // `squared_norms`: ‖g‖² of main gradients that have been read already, by the keys of the stored
  // tensors. `run` must outlive this.
  MainGradientNorms(const trace::Source& run, std::map<trace::TensorKey, double> squared_norms);

  // Reads what it needs at the first call for a step; not thread-safe. A gradient that cannot be
  // read, or is not finite, is a problem and not an error; so is a step without any.
  const MainGradientNorm& of(std::uint64_t step);

 private:
  MainGradientNorm made(std::uint64_t step) const;

  const trace::Source& run_;
  std::map<trace::TensorKey, double> squared_norms_;
  std::map<std::uint64_t, MainGradientNorm> steps_;
};

// ‖g‖² of the main gradients that the comparison has read whole, by the key of the stored tensor.
// `side`: of which run.
std::map<trace::TensorKey, double> squares_of_main_gradients(
    const std::vector<comparison::TensorComparison>& results,
    layout::ViewPtr comparison::Pair::*side);

// How much clipping multiplied the main gradients, from the recorded norm, and whether they were
// recorded before or after it. A collector records them where it is told to, or when the optimizer
// begins its step, which is after; their own norm tells which.

struct Clip {
  double factor = 1;    // of the gradient as recorded
  std::string problem;  // why it is not known, or empty
};

class Clipping {
 public:
  // Both must outlive it.
  Clipping(const trace::Source& candidate, MainGradientNorms& gradients);

  // Reads what it needs at the first call for a step; not thread-safe. An unreadable norm or
  // gradient is a problem, not an error.
  Clip of(std::uint64_t step, double clip_norm);

 private:
  struct Recorded {
    double norm = 0;
    std::string problem;
  };

  const Recorded& recorded(std::uint64_t step);

  const trace::Source& candidate_;
  MainGradientNorms& gradients_;
  std::map<std::uint64_t, Recorded> steps_;
};

}  // namespace ttrace::replay
