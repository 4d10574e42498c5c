// By how much clipping multiplied the main gradients, from the recorded norm, and whether they were
// recorded before or after it. A collector records them where it is told to, or when the optimizer
// begins its step, which is after; their own norm tells which.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "engine/main_gradient_norms.h"
#include "trace/source.h"

namespace ttrace::engine {

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

}  // namespace ttrace::engine
