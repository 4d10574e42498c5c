// Why a tensor diverged, with the numbers that say so. A cause without evidence does not exist.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comparison/result.h"
#include "judge/tolerance.h"
#include "measure/measure.h"

namespace ttrace::localize {

using comparison::Cause;

// What the finder of a cause may look at.
struct Case {
  const measure::Backend* backend = nullptr;
  measure::TensorRef reference;
  measure::TensorRef candidate;
  const measure::Measurement* measurement = nullptr;
  judge::Tolerance tolerance;
  // ‖noise‖ of perturbed runs, and how much of it lies along the tensor; nothing where unknown.
  std::optional<double> noise_norm = std::nullopt;
  std::optional<double> coherence = std::nullopt;
  std::map<std::string, std::string> reduced_over = {};  // axes_reduced_over()
};

// Returns all causes that the evidence supports, the one that leaves least unexplained first. Reads
// the tensor again; throws an input error if that fails.
std::vector<Cause> find_causes(const Case& the_case);

// The value was never summed (or averaged) over an axis: replicas differ, and their sum is the
// reference.
std::vector<Cause> find_missing_reduction(const Case& the_case);

// The value was multiplied once too often or too seldom: C ≈ k·R, and the residual is rounding.
// Names the factor, to the digits that the residual supports, the simple fraction that it is, if
// one stands out, and a mesh axis where the factor is its size or the inverse and a sum was made
// over it (Case::reduced_over): many things have the size 2.
std::vector<Cause> find_scaled(const Case& the_case);

// "1.0323 = 32/31", "0.5 = 1/2", "3"; `uncertainty` ≥ 0 is how far off `factor` may be. Never "1":
// digits are added until it differs. A fraction (n, 1/n, n/(n ± 1), or of numbers up to 16) is
// named where a factor that is as uncertain would rarely come as near to one by chance.
std::string describe_factor(double factor, double uncertainty);

struct StaleFacts {
  std::uint64_t wrong = 0;    // elements that are not what the optimizer makes
  std::uint64_t unmoved = 0;  // those of them that have their old value
  double error = 0;           // relative, of the whole tensor
};

// An updated parameter, or part of it, still has its old value. Named where most of the wrong
// elements did not move.
std::vector<Cause> find_stale(const StaleFacts& facts);

// Returns the mesh axes over which something was added up between what the pair was computed from
// (results[i] for i in `depends_on`) and the pair, each with a description: {"dp", "its param_grad
// is a partial sum over dp"}. A dependency is partial or cut over the axis, and the pair is
// neither.
std::map<std::string, std::string> axes_reduced_over(
    const std::vector<std::size_t>& depends_on, const comparison::Pair& pair,
    const std::vector<comparison::TensorComparison>& results);

}  // namespace ttrace::localize
