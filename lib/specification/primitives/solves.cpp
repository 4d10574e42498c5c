// Systems of linear equations with a triangular matrix, and triangular factors.
#include <algorithm>
#include <cmath>

#include "specification/primitives/families.h"
#include "specification/primitives/loops.h"
#include "specification/primitives/shape_rules.h"

namespace ttrace::specification {
namespace {

using tensor::Shape;

Shape triangular_shape(const ShapeCall& call) {
  const Shape& a = argument(call, 0);
  const Shape& b = argument(call, 1);
  if (a.size() < 2 || b.size() < 2 || !fits(a.back(), a[a.size() - 2]) ||
      !fits(a.back(), b[b.size() - 2])) {
    throw shape_error(describe_shape(a), " is no square matrix for the rows of ",
                      describe_shape(b));
  }
  Shape result = broadcast(Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2));
  result.push_back(b[b.size() - 2]);
  result.push_back(b.back());
  return result;
}

Value repeated_over(const Value& value, const Shape& like) {
  Shape shape(like.begin(), like.end() - 2);
  shape.insert(shape.end(), value.shape().end() - 2, value.shape().end());
  return value.expanded(shape).to_dense();
}

// By substitution, row after row. A run rounds each row, and its error goes into those that follow:
// simulated roundings do the same.
Value triangular_solve(const EvaluationCall& call) {
  const Value a = repeated_over(*call.arguments[0], call.shape);
  Value result = repeated_over(*call.arguments[1], call.shape).copy();
  const bool lower = call.attributes.flag("lower");
  const bool unit = call.attributes.flag("unit");
  const std::uint64_t rows = call.shape[call.shape.size() - 2];
  const std::uint64_t columns = call.shape.back();
  if (result.size() == 0) return result;
  const std::uint64_t systems = result.size() / (rows * columns);
  for_rows(call.context, systems, rows * columns * rows,
           [&](std::uint64_t begin, std::uint64_t end) {
             std::vector<double> squares(columns);
             for (std::uint64_t s = begin; s < end; ++s) {
               const double* matrix = a.data() + s * rows * rows;
               double* x = result.fresh() + s * rows * columns;
               for (std::uint64_t turn = 0; turn < rows; ++turn) {
                 const std::uint64_t i = lower ? turn : rows - 1 - turn;
                 double* row = x + i * columns;
                 for (std::uint64_t c = 0; c < columns; ++c) squares[c] = row[c] * row[c];
                 for (std::uint64_t before = 0; before < turn; ++before) {
                   const std::uint64_t j = lower ? before : rows - 1 - before;
                   const double factor = matrix[i * rows + j];
                   for (std::uint64_t c = 0; c < columns; ++c) {
                     const double term = factor * x[j * columns + c];
                     row[c] -= term;
                     squares[c] += term * term;
                   }
                 }
                 for (std::uint64_t c = 0; c < columns; ++c) {
                   if (call.noise != nullptr) {
                     const double norm = std::sqrt(squares[c]);
                     row[c] += call.noise->stream(1).at((s * rows + i) * columns + c) *
                               sum_roundoff(call.dtype, norm, turn + 1);
                   }
                   if (!unit) row[c] /= matrix[i * rows + i];
                 }
               }
             }
           });
  return result;
}

Shape cholesky_shape(const ShapeCall& call) {
  const Shape& a = argument(call, 0);
  if (a.size() < 2 || !fits(a.back(), a[a.size() - 2])) {
    throw shape_error(describe_shape(a), " is no square matrix");
  }
  return a;
}

// Row after row of the lower triangle. The errors of earlier rows go into those that follow, as in
// a run.
Value cholesky(const EvaluationCall& call) {
  const Value a = call.arguments[0]->to_dense();
  Value result = Value::zeros(call.shape);
  const std::uint64_t rows = call.shape.back();
  if (result.size() == 0) return result;
  for_rows(call.context, result.size() / (rows * rows), rows * rows * rows,
           [&](std::uint64_t begin, std::uint64_t end) {
             for (std::uint64_t s = begin; s < end; ++s) {
               const double* matrix = a.data() + s * rows * rows;
               double* lower = result.fresh() + s * rows * rows;
               for (std::uint64_t i = 0; i < rows; ++i) {
                 for (std::uint64_t j = 0; j <= i; ++j) {
                   double rest = matrix[i * rows + j];
                   double squares = rest * rest;
                   for (std::uint64_t k = 0; k < j; ++k) {
                     const double term = lower[i * rows + k] * lower[j * rows + k];
                     rest -= term;
                     squares += term * term;
                   }
                   if (call.noise != nullptr) {
                     rest += call.noise->stream(1).at((s * rows + i) * rows + j) *
                             sum_roundoff(call.dtype, std::sqrt(squares), j + 1);
                   }
                   lower[i * rows + j] = i == j ? std::sqrt(rest) : rest / lower[j * rows + j];
                 }
               }
             }
           });
  return result;
}

}  // namespace

std::vector<Primitive> solve_primitives() {
  using enum AttributeType;
  Primitive solve = entry("triangular_solve", {"a", "b"}, 2, {{"lower", kFlag}, {"unit", kFlag}},
                          Rounding::kOnce, triangular_shape, triangular_solve);
  solve.shape_is_layout = true;
  Primitive factor = entry("cholesky", {"a"}, 1, {}, Rounding::kOnce, cholesky_shape, cholesky);
  factor.shape_is_layout = true;
  return {solve, factor};
}

}  // namespace ttrace::specification
