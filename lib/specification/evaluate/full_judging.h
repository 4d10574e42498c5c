// Holds a recorded tensor C against its expected value E, element by element, and collects the sums
// that its bound follows from.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "specification/evaluate/bound.h"
#include "specification/evaluate/judge_expression.h"
#include "specification/evaluate/sample.h"
#include "specification/primitives/value.h"
#include "tensor/dtype.h"

namespace ttrace::specification {

class FullJudging {
 public:
  // `expected` and `recorded` have one shape.
  FullJudging(const Value& expected, const Value& recorded, tensor::DType dtype,
              const measure::ExecutionContext& context);

  // To be called first.
  void compare(ExpressionJudgement& judgement);

  // Adds E with simulated roundings, one of `draws` draws.
  void add_draw(const Value& moved, std::uint64_t draws);
  // Drops the draws that were added.
  void forget_draws();

  // Returns the sums with a spread estimated from `moved_cut`, which is E with simulated roundings
  // in `cut` of the result: relative to E it is the same everywhere. Nothing if that part of E is
  // 0, or has no elements of a size that others have.
  std::optional<RowSums> with_sample(const Value& moved_cut, const Cut& cut) const;

  // Elements of equal size are all rounded in one direction when the result is stored, which
  // changes its scale.
  void add_drift_of_storage();

  // Whether C is E, without any rounding.
  bool is_equal() const;
  // Whether E is 0 in all elements that count.
  bool is_zero() const;

  const RowSums& sums() const { return sums_; }

 private:
  // What one row adds, apart from spreads.
  struct RowDifference {
    double product = 0;
    std::uint64_t non_finite = 0;
    std::uint64_t endless = 0;
    bool equal = true;
    bool left_out = false;  // an element that is not finite, on one side or on both
  };

  RowDifference compare_row(std::uint64_t r);
  RowDifference compare_plain(std::uint64_t r, const double* c, const double* e);
  RowDifference compare_any(std::uint64_t r, const double* c, const double* expected);
  bool mark_bands(std::uint64_t r, const double* e);
  double stored_if_beyond(double e) const;

  // Calls visit(row, bands) for all rows on several threads, and returns the sum of the bands.
  template <typename Visit>
  Bands over_rows(const Visit& visit) const;

  Value expected_;
  Value recorded_;
  tensor::DType dtype_;
  double largest_;  // number of the type
  const measure::ExecutionContext& context_;
  RowSums sums_;
  std::uint64_t columns_;
  bool left_out_ = false;
  // 0 of elements that are not finite on both sides, else 1 + their band.
  std::vector<std::uint8_t> marks_;
  std::vector<char> has_bands_;  // by row: some element is not in band 0
};

}  // namespace ttrace::specification
