// Judges products of matrices by random probes (Freivalds): with R of k random signs per column,
// ‖(C - X·W)·R‖ / √k estimates ‖C - X·W‖, row by row, for the cost of reading C, X and W.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "specification/evaluate/bound.h"
#include "specification/expression.h"

namespace ttrace::specification {

inline constexpr std::uint64_t kProbes = 8;  // signs per column
// A matrix of fewer rows is not probed: the estimate of its norm would scatter.
inline constexpr std::uint64_t kFewestRowsToProbe = 32;
// Beyond these shares the product is made in full. Errors that lie along few directions make the
// estimate scatter: of one direction it has 8 degrees of freedom, and a healthy 0.5 reads 0.75.
inline constexpr double kProbedShare = 0.6;
inline constexpr double kProbedRowShare = 2;
// A sum of more terms is not probed: the operands of all of them are held at once.
inline constexpr std::size_t kMostTerms = 4096;

// A sum of products and other values at the root of an expression, seen as a matrix whose columns
// are the last dimension of the result.
struct ProductPlan {
  struct Product {
    std::uint32_t left = 0;  // values of the expression
    std::uint32_t right = 0;
    bool transposed = false;  // the term is (left · right)ᵀ
    double coefficient = 1;
    tensor::DType dtype = tensor::DType::kFloat32;
  };
  struct Other {
    std::uint32_t value = 0;
    tensor::Shape shape;  // to which it is broadcast
    bool transposed = false;
    double coefficient = 1;
  };
  std::vector<Product> products;
  std::vector<Other> others;
  double rounding = 0;  // Σ u²/3 of the roundings after the products
};

// Returns nothing if the root is no such sum, has an open extent, or more than kMostTerms terms.
std::optional<ProductPlan> plan_of(const Expression& expression);

// An upper bound of the bytes of the values that probing holds at a time.
std::uint64_t plan_bytes(const Expression& expression, const ProductPlan& plan);

// Whether all operands and terms are inputs of the expression, or views of them. A computed one may
// have been rounded the other way in the run, as in a quantisation.
bool takes_leaves(const Expression& expression, const ProductPlan& plan);

// Estimates the sums by probes. Returns nothing if a value is not finite.
std::optional<RowSums> probe(const Expression& expression, const ProductPlan& plan,
                             std::span<const Value> leaves, const Value& recorded,
                             const ExpressionOptions& options);

}  // namespace ttrace::specification
