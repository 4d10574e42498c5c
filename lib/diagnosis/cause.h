// Why a tensor diverged, with the numbers that say so. A cause without evidence does not exist.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compare/measure.h"
#include "tolerance/tolerance.h"

namespace ttrace::diagnosis {

struct Cause {
  std::string name;        // of the list in method §5, e.g. "missing_reduction"
  std::string axis;        // mesh axis it is about, or empty
  std::string evidence;    // one line, without the name
  double unexplained = 0;  // ‖what the cause leaves over‖ / ‖R‖
};

// What a cause finder may look at.
struct Case {
  compare::TensorRef reference;
  compare::TensorRef candidate;
  const compare::Measurement* measurement = nullptr;
  tolerance::Tolerance tolerance;
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

}  // namespace ttrace::diagnosis
