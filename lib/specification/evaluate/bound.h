// How far a tensor may be from its expression: sums over its rows, and what follows from them.
// The method, its constants and their evidence: lib/audit/README.md.
#pragma once

#include <cstdint>
#include <vector>

#include "specification/evaluate/bands.h"
#include "specification/evaluate/judge_expression.h"

namespace ttrace::specification {

// The allowed error, in units of the error that simulated roundings make.
inline constexpr double kSpreadMultiplier = 2;
// The allowed |k - 1|: roundings are incoherent, so they hardly change the scale of a tensor. In
// units of bound / ‖E‖, and of what simulated roundings change the scale.
inline constexpr double kScaleOfBound = 0.3;
inline constexpr double kScaleOfSpread = 6;
// Elements of one size may be off by this many times their own bound: the simulation is right for a
// whole tensor, and less so for its small elements.
inline constexpr double kBandMultiplier = 3;
// Tensors of fewer elements are not judged by their scale.
inline constexpr std::uint64_t kFewestToScale = 64;

// Sums over a tensor: C the recorded values, E the expected ones, E' E with simulated roundings.
struct RowSums {
  tensor::Shape shape;
  std::vector<double> error;     // ‖C - E‖² of every row
  std::vector<double> expected;  // ‖E‖²
  std::vector<double> spread;    // ‖E' - E‖², the mean over all draws
  double product = 0;            // ⟨C, E⟩
  double moved = 0;              // ⟨E' - E, E⟩, the root mean square over all draws
  double spread_fourth = 0;  // Σ (E' - E)⁴ over all elements, the mean over draws; 0: not known
  std::uint64_t draws = 1;
  Bands bands{};  // all but the first, where they are known

  explicit RowSums(const tensor::Shape& of);
  std::uint64_t elements() const;
};

// The error that storing the result adds: the unit roundoff of its type, unless the expression ends
// with a rounding to that type, and the type's smallest number.
struct StorageRounding {
  double unit = 0;
  double quantum = 0;
};

// Fills the shares, norms, scale, rows and below_bound of `judgement`.
void judge_rows(const RowSums& sums, const StorageRounding& storage, tensor::DType dtype,
                std::size_t most_rows, ExpressionJudgement& judgement);

}  // namespace ttrace::specification
