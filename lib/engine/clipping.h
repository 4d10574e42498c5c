// By how much clipping multiplied the main gradients, from the recorded norm, and whether they were
// recorded before or after it. A collector records them where it is told to, or when the optimizer
// begins its step, which is after; their own norm tells which.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "trace/source.h"

namespace ttrace::engine {

struct Clip {
  double factor = 1;    // of the gradient as recorded
  std::string problem;  // why it is not known, or empty
};

class Clipping {
 public:
  // `squared_norms`: of main gradients that have been read already, by their keys.
  Clipping(const trace::Source& candidate, std::map<trace::TensorKey, double> squared_norms);

  // Reads what it needs at the first call for a step; not thread-safe. An unreadable norm or
  // gradient is a problem, not an error.
  Clip of(std::uint64_t step, double clip_norm);

 private:
  struct Norms {
    double recorded = 0;
    std::string problem;
    bool known_own = false;
    double own = 0;  // of the main gradients as recorded, all together
    std::string own_problem;
  };

  Norms& norms_of(std::uint64_t step);
  void read_own(std::uint64_t step, Norms& norms) const;

  const trace::Source& candidate_;
  std::map<trace::TensorKey, double> squared_norms_;
  std::map<std::uint64_t, Norms> steps_;
};

}  // namespace ttrace::engine
