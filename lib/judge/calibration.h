// A tolerance file: the noise of every tensor of a reference, and the rules that people set on top
// of it. Format: schemas/tolerance-v1.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "judge/noise_rule.h"
#include "measure/grid.h"
#include "tensor/box.h"
#include "tensor/dtype.h"
#include "trace/key.h"
#include "trace/manifest.h"

namespace ttrace::judge {

struct PolicyRule {
  std::vector<std::string> names;  // globs
  std::vector<trace::Kind> kinds;  // empty: any
  std::optional<double> multiplier;
  std::optional<double> floor;     // in units of ε·‖R‖
  std::optional<double> absolute;  // root mean square per element
  bool exact = false;              // every element equal
  std::string skip;                // the reason not to judge, or empty
  std::string until;               // "2027-01-31": the last day on which it is skipped, or empty
};

using Policy = std::vector<PolicyRule>;

// Index of the first rule that is about the tensor.
std::optional<std::size_t> rule_for(const Policy& policy, const trace::TensorKey& key);

// Whether `rule` still skips on `today`, a date as "2026-11-21".
bool skips(const PolicyRule& rule, const std::string& today);

// Whether `text` is a day of the calendar written as "2026-11-21".
bool is_date(const std::string& text);

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
