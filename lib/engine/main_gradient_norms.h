// The norm of a run's own main gradients, step by step: what its recorded gradient norm, and the
// clipping by it, follow from.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/pairing.h"
#include "report/compare_report.h"
#include "trace/source.h"

namespace ttrace::engine {

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
// `side`: of which run. results[i] belongs to pairs[i].
std::map<trace::TensorKey, double> squares_of_main_gradients(
    const std::vector<Pair>& pairs, const std::vector<report::Result>& results,
    layout::ViewPtr Pair::*side);

}  // namespace ttrace::engine
