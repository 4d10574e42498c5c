// Judges whether a recorded tensor is what its expression says, up to the rounding that the
// operations may have added. The bound and its constants: lib/audit/README.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "measure/backend.h"
#include "specification/evaluate/shared_values.h"
#include "specification/expression.h"
#include "specification/primitives/value.h"
#include "tensor/dtype.h"

namespace ttrace::specification {

enum class Products {
  kProbed,  // a product at the root is judged by random probes, and made in full where they object
  kExact,   // all products are made in full
};

struct ExpressionOptions {
  Products products = Products::kProbed;
  std::uint64_t seed = 0;      // of probes and simulated roundings; seed_of() of the tensor's key
  std::size_t most_rows = 16;  // kept in `rows`
  measure::ExecutionContext context;
  const ValueSharing* sharing = nullptr;  // values in common with other expressions
};

// The seed of a tensor by its kind, name, call and copy.
std::uint64_t seed_of(const trace::TensorKey& key);

// A row (all elements with the same indices but the last) that is off.
struct RowError {
  tensor::Shape row;  // its indices, one fewer than the tensor has dimensions
  double error = 0;   // ‖C - E‖ of the row
  double bound = 0;
  double share = 0;  // error / bound; infinite where nothing is allowed
};

// C is the recorded value, E what the expression gives.
struct ExpressionJudgement {
  // The largest share of what is allowed, of the whole tensor, its scale, its rows and its elements
  // of one size (where kRowMultiplier and kBandMultiplier times their bounds are allowed); beyond 1
  // the tensor does not follow. Infinite if values that are not finite, integers or booleans differ
  // more than rounding explains.
  double share = 0;
  bool follows() const { return share <= 1; }
  // Nothing was judged: the bound is as large as the tensor, or as more than half of its elements
  // by their size, and C is not E bit for bit.
  bool below_bound = false;

  double expected_norm = 0;   // ‖E‖, of the finite elements
  double error = 0;           // ‖C - E‖
  double relative_error = 0;  // ‖C - E‖ / ‖E‖, 0 if both are 0
  double epsilons = 0;        // relative_error in epsilons of the dtype
  double bound = 0;           // allowed ‖C - E‖ of the whole tensor
  double norm_share = 0;      // error / bound
  double scale = 1;           // k = ⟨C,E⟩ / ⟨E,E⟩
  double residual = 0;        // ‖C - k·E‖ / ‖E‖
  double scale_share = 0;     // of the allowed |k - 1|
  double row_share = 0;       // error / bound of the worst row, of tensors with several rows
  double band_share = 0;      // of elements that are much smaller than others of their row
  bool equal_bits = false;    // every element of C is E's, rounded to the dtype
  bool by_probes = false;     // estimated; the error of a row may be off by 25 %

  std::uint64_t non_finite =
      0;                      // elements that are NaN or infinite on one side only, or differently
  std::uint64_t endless = 0;  // elements that are NaN or +infinity on both sides
  // Integers and booleans that differ, other than by choosing another one of equal scores.
  std::uint64_t unequal = 0;
  std::uint64_t undecided = 0;  // of them, as many may follow from rounding (ties)

  std::uint64_t small_elements_beyond = 0;  // in bands beyond kBandMultiplier times their bound
  std::uint64_t rows_beyond = 0;            // rows beyond kRowMultiplier times their bound
  std::vector<RowError> rows;               // those, worst first
};

// Rows are judged individually above this multiple of their bound; probe estimates are noisier.
inline constexpr double kRowMultiplier = 3;

// `leaves`: the values of expression.leaves. `recorded`: the tensor in the trace, stored as
// `dtype`. Throws as evaluate() does, and if the shapes differ.
ExpressionJudgement judge_expression(const Expression& expression, std::span<const Value> leaves,
                                     const Value& recorded, tensor::DType dtype,
                                     const ExpressionOptions& options);

}  // namespace ttrace::specification
