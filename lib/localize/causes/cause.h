// Why a tensor diverged, with the numbers that say so. A cause without evidence does not exist.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comparison/result.h"
#include "judge/tolerance.h"
#include "measure/measure.h"

namespace ttrace::localize {

using comparison::Cause;

// What a cause finder may look at.
struct Case {
  const measure::Backend* backend = nullptr;
  measure::TensorRef reference;
  measure::TensorRef candidate;
  const measure::Measurement* measurement = nullptr;
  judge::Tolerance tolerance;
  // ‖noise‖ of perturbed runs, and how much of it lies along the tensor; nothing where unknown.
  std::optional<double> noise_norm = std::nullopt;
  std::optional<double> coherence = std::nullopt;
  // Mesh axes over which something was added up between what the tensor was computed from and the
  // tensor, with the words that tell it: {"dp", "its param_grad is a partial sum over dp"}.
  std::map<std::string, std::string> reduced_over = {};
};

// All causes that the evidence supports, the one that leaves least unexplained first. Reads the
// tensor again; throws an input error if that fails.
std::vector<Cause> find_causes(const Case& the_case);

}  // namespace ttrace::localize
