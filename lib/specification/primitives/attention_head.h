// The heads of scaled dot-product attention: probabilities and their derivatives, a block of rows
// at a time, with the roundings that fused kernels make inside.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "specification/primitives/primitive.h"
#include "specification/primitives/products.h"

namespace ttrace::specification {

// A matrix from one of its rows on.
inline MatrixView at_row(MatrixView matrix, std::uint64_t row) {
  matrix.data += static_cast<std::int64_t>(row) * matrix.row_stride;
  return matrix;
}

// Everything of one head but its rows.
struct Head {
  MatrixView q, k, v, g, mask;
  std::uint64_t number = 0;  // over all batches
};

// Attention over all heads of a call.
class Attention {
 public:
  // `first` is the position of q; g stands before it in derivatives.
  Attention(const EvaluationCall& call, std::size_t first);

  std::uint64_t heads() const { return q_.size() == 0 ? 0 : q_.size() / (rows_ * depth_); }
  std::uint64_t heads_per_group() const { return heads_ / groups_; }
  std::uint64_t rows() const { return rows_; }
  std::uint64_t columns() const { return columns_; }
  std::uint64_t depth() const { return depth_; }
  std::uint64_t width() const { return width_; }
  double scale() const { return scale_; }
  const Value& q() const { return q_; }
  const Value& k() const { return k_; }
  const Value& v() const { return v_; }
  const Value& g() const { return g_; }

  Head head(std::uint64_t number) const;

  // p of rows [begin, end), and z with `derivative`, of the first reach() columns; the others are
  // 0.
  void block(const Head& head, std::uint64_t begin, std::uint64_t end, bool derivative,
             std::uint64_t reach, std::vector<double>& p, std::vector<double>& z) const;

  // How many columns, from the first, rows [begin, end) may look at. All if some row looks at none:
  // its probabilities are NaN.
  std::uint64_t reach(const Head& head, std::uint64_t begin, std::uint64_t end) const;

 private:
  // Whether the mask gives a probability of 0, whatever the scores are.
  bool is_hidden(const Head& head, std::uint64_t row, std::uint64_t column) const;

  // Turns a row of q·kᵀ into probabilities.
  void probabilities(const Head& head, std::uint64_t row, std::uint64_t reach, bool derivative,
                     double* scores) const;

  // Rounds a row of g·vᵀ.
  void round_products(const Head& head, const MatrixView& g, std::uint64_t r, std::uint64_t row,
                      std::uint64_t reach, double* line) const;

  // The rounding of Σ p·(g·vᵀ): kernels take it as Σ g·o from the rounded output o.
  double rounding_of_inner(const MatrixView& g, std::uint64_t r, const double* output,
                           std::uint64_t row, std::uint64_t reach, double inner) const;

  const EvaluationCall& call_;
  Value q_, k_, v_, g_;
  std::optional<Value> mask_;
  bool keeps_ = false;  // the mask is bool
  double scale_;
  bool causal_;
  std::uint64_t heads_ = 0, groups_ = 0, rows_ = 0, columns_ = 0, depth_ = 0, width_ = 0;
  Value key_norms_, value_norms_;
  double unit_ = 0, accumulator_ = 0;
};

}  // namespace ttrace::specification
