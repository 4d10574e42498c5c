// A tolerance file: the noise of every tensor of a reference, and rules that override it. Format:
// schemas/tolerance-v1.md.
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

// A rule by name and kind. The first rule that matches a tensor applies; a tensor that no rule
// matches is judged by its noise.
struct PolicyRule {
  std::vector<std::string> names;  // globs
  std::vector<trace::Kind> kinds;  // empty: any
  std::optional<double> multiplier;
  std::optional<double> floor;     // in units of ε·‖R‖
  std::optional<double> absolute;  // root mean square per element
  bool exact = false;              // every element equal
  std::string skip;                // the reason to skip the tensor, or empty
  std::string until;               // the last day of the skip, as "2027-01-31", or empty
};

using Policy = std::vector<PolicyRule>;

// The index of the first rule that matches the tensor.
std::optional<std::size_t> rule_for(const Policy& policy, const trace::TensorKey& key);

// Whether `rule` skips tensors on `today`, a date such as "2026-11-21".
bool skips(const PolicyRule& rule, const std::string& today);

// Whether `text` is a calendar date such as "2026-11-21".
bool is_date(const std::string& text);

inline constexpr std::string_view kToleranceSchema = "ttrace.tolerance/1";

struct CalibratedTensor {
  tensor::DType dtype = tensor::DType::kFloat32;
  tensor::Shape shape;
  NoiseEstimate noise;
};

struct Calibration {
  std::string reference;          // path as given by the user
  std::vector<std::string> runs;  // paths of the perturbed runs
  Policy rules;
  std::map<trace::TensorKey, CalibratedTensor> tensors;
};

// Throws an input error with the JSON pointer for anything that violates the schema.
Calibration parse_calibration(std::string_view text, const std::string& file);

// The file's text: deterministic, one rule or tensor per line.
std::string calibration_text(const Calibration& calibration);

// Chooses how finely to cut the tensors of a reference into cells, so that a calibration of all of
// them takes at most 0.1 % of their bytes, or 2 MB if that is more.
class GridPlan {
 public:
  explicit GridPlan(const std::vector<trace::TensorEntry>& tensors);

  measure::Grid grid_for(const tensor::Shape& shape) const;
  std::uint64_t most_cells() const { return most_cells_; }

 private:
  std::uint64_t most_cells_ = 1;
};

}  // namespace ttrace::judge
