// A tolerance file: the noise of every tensor of a reference, and the rules on top. Its meaning is
// in schemas/tolerance-v1.md.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "judge/noise_estimate.h"
#include "judge/policy.h"
#include "measure/grid.h"
#include "tensor/box.h"
#include "tensor/dtype.h"
#include "trace/manifest.h"

namespace ttrace::judge {

inline constexpr std::string_view kToleranceSchema = "ttrace.tolerance/1";

struct CalibratedTensor {
  tensor::DType dtype = tensor::DType::kFloat32;
  tensor::Shape shape;
  NoiseEstimate noise;
};

struct Calibration {
  std::string reference;          // path, as it was given
  std::vector<std::string> runs;  // paths of the disturbed runs
  Policy rules;
  std::map<trace::TensorKey, CalibratedTensor> tensors;
};

// Throws an input error with the JSON pointer for everything that is not as the schema says.
Calibration parse_calibration(std::string_view text, const std::string& file);

// Deterministic, one rule and one tensor per line.
std::string calibration_text(const Calibration& calibration);

// How finely the tensors of one reference are cut, so that a calibration of all of them takes at
// most 0.1 % of their bytes, or 2 MB if that is more.
class GridPlan {
 public:
  explicit GridPlan(const std::vector<trace::TensorEntry>& tensors);

  measure::Grid grid_for(const tensor::Shape& shape) const;
  std::uint64_t most_cells() const { return most_cells_; }

 private:
  std::uint64_t most_cells_ = 1;
};

}  // namespace ttrace::judge
