#include "specification/evaluate/probes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/functions.h"
#include "specification/evaluate/evaluation.h"
#include "specification/primitives/loops.h"
#include "specification/primitives/products.h"
#include "specification/primitives/shape_rules.h"

namespace ttrace::specification {
namespace {

using tensor::Shape;

std::uint64_t last_extent(const Shape& shape) { return shape.empty() ? 1 : shape.back(); }

// Collects the terms of a sum, from the result down to products. A value that several terms
// contain is taken apart once, with the sum of its coefficients: steps stand after their arguments,
// so a value's coefficient is complete when all values behind it are done.
class Planner {
 public:
  explicit Planner(const Expression& expression)
      : expression_(expression), leaves_(expression.leaves.size()) {}

  std::optional<ProductPlan> plan() {
    add(expression_.result, false, 1);
    while (!open_.empty()) {
      const auto last = std::prev(open_.end());
      const auto [value, transposed] = last->first;
      const double coefficient = last->second;
      open_.erase(last);
      if (is_open(shape_of(value))) return std::nullopt;
      take_apart(value, transposed, coefficient);
      if (open_.size() + plan_.products.size() + kept_.size() > kMostTerms) return std::nullopt;
    }
    if (plan_.products.empty()) return std::nullopt;
    for (const auto& [other, coefficient] : kept_) {
      const auto& [value, transposed, shape] = other;
      plan_.others.push_back({value, shape, transposed, coefficient});
    }
    return std::move(plan_);
  }

 private:
  using Term = std::pair<std::uint32_t, bool>;  // a value; whether its transpose is meant

  const Shape& shape_of(std::uint32_t value) const {
    return value < leaves_
               ? expression_.specification->tensors[expression_.leaves[value].tensor].shape
               : expression_.steps[value - leaves_].node->shape;
  }

  void add(std::uint32_t value, bool transposed, double coefficient) {
    open_[{value, transposed}] += coefficient;
  }

  void keep(std::uint32_t value, const Shape& shape, bool transposed, double coefficient) {
    kept_[{value, transposed, shape}] += coefficient;
  }

  void add_rounding(tensor::DType dtype) {
    const double unit = unit_roundoff(dtype);
    plan_.rounding += unit * unit / 3;
  }

  // `transposed`: the value is a matrix whose transpose is a term of the result.
  void take_apart(std::uint32_t value, bool transposed, double coefficient) {
    const Shape& shape = shape_of(value);
    const auto terms = terms_of(value, transposed);
    if (!terms) return keep(value, shape, transposed, coefficient);
    const Step& step = expression_.steps[value - leaves_];
    const tensor::DType dtype = step.node->dtype;
    for (const MatrixTerm& term : *terms) {
      const std::uint32_t argument = step.arguments[term.left];
      const double own = coefficient * term.coefficient;
      if (term.right) {
        plan_.products.push_back({argument, step.arguments[*term.right], transposed, own, dtype});
        return;
      }
      if (term.broadcast) {
        keep(argument, shape, transposed, own);
      } else {
        add(argument, transposed != term.transposed, own);
      }
    }
    if (rounds(step)) add_rounding(dtype);
  }

  std::optional<std::vector<MatrixTerm>> terms_of(std::uint32_t value, bool transposed) const {
    if (value < leaves_) return std::nullopt;
    const Step& step = expression_.steps[value - leaves_];
    const Node& node = *step.node;
    if (node.primitive->terms == nullptr) return std::nullopt;
    std::vector<const Shape*> arguments;
    for (const std::uint32_t argument : step.arguments) arguments.push_back(&shape_of(argument));
    return node.primitive->terms(
        {node.attributes, shape_of(value), arguments, node.dtype, transposed});
  }

  bool rounds(const Step& step) const {
    const Rounding rounding = step.node->primitive->rounding;
    if (rounding != Rounding::kWhereNarrower) return rounding == Rounding::kOnce;
    return unit_roundoff(step.node->dtype) >
           unit_roundoff(dtype_of_value(expression_, step.arguments[0]));
  }

  const Expression& expression_;
  const std::size_t leaves_;
  std::map<Term, double> open_;
  std::map<std::tuple<std::uint32_t, bool, Shape>, double> kept_;
  ProductPlan plan_;
};

// Seen as [rows, columns of the last dimension].
Value as_matrix(const Value& value) {
  const std::uint64_t columns = last_extent(value.shape());
  return value.reshaped({columns == 0 ? 0 : value.size() / columns, columns});
}

Value transposed(const Value& matrix) {
  const std::size_t dims[] = {1, 0};
  return matrix.permuted(dims);
}

// The product of a matrix with the probes.
Value times(const Value& matrix, const Value& probes, const measure::ExecutionContext& context) {
  return product_of(matrix, probes, {matrix.shape()[0], probes.shape()[1]}, context);
}

Value signs(std::uint64_t columns, std::uint64_t seed) {
  Value value = Value::uninitialised({columns, kProbes});
  const Noise noise(seed);
  for (std::uint64_t i = 0; i < value.size(); ++i) value.fresh()[i] = noise.sign(i);
  return value;
}

void add_multiple(const Value& term, double coefficient, std::vector<double>& sum) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += coefficient * term.data()[i];
}

// The expected tensor times the probes, and the possible roundings of its products.
struct Probed {
  std::vector<double> expected;  // rows × kProbes
  std::vector<double> products;  // Σ u²/3 · ‖row of a product‖² and the like, by row
};

// The factors of all products, then the other terms.
std::vector<std::uint32_t> operands_of(const ProductPlan& plan) {
  std::vector<std::uint32_t> operands;
  for (const auto& product : plan.products) {
    operands.push_back(product.left);
    operands.push_back(product.right);
  }
  for (const auto& other : plan.others) operands.push_back(other.value);
  return operands;
}

Probed probe_expected(const Expression& expression, const ProductPlan& plan,
                      std::span<const Value> leaves, std::uint64_t rows, const Value& probes,
                      const std::optional<Perturbation>& perturbation,
                      const measure::ExecutionContext& context) {
  const std::vector<Value> values =
      evaluate_values(expression, leaves, operands_of(plan), perturbation, context);

  Probed probed;
  probed.expected.assign(rows * kProbes, 0.0);
  probed.products.assign(rows, 0.0);
  std::size_t next = 0;
  for (const auto& product : plan.products) {
    Value left = as_matrix(values[next++]);
    Value right = values[next++];
    if (product.transposed) {
      std::swap(left, right);
      left = transposed(left);
      right = transposed(right);
    }
    const Value term = times(left, times(right, probes, context), context);
    add_multiple(term, product.coefficient, probed.expected);
    if (perturbation) continue;
    const Value left_norms = row_norms(left, context);
    const Value right_norms = row_norms(right, context);
    double right_square = 0;
    for (const double norm : right_norms.elements()) right_square += norm * norm;
    const double sum_unit = sum_roundoff(product.dtype, 1, left.shape()[1]);
    const double unit = base::hypotenuse(unit_roundoff(product.dtype),
                                         coherent_roundoff(product.dtype, left.shape()[1]));
    for (std::uint64_t r = 0; r < rows; ++r) {
      double square = 0;
      for (std::uint64_t p = 0; p < kProbes; ++p) {
        square += term.data()[r * kProbes + p] * term.data()[r * kProbes + p];
      }
      probed.products[r] +=
          product.coefficient * product.coefficient *
          (unit * unit / 3 * square / kProbes +
           sum_unit * sum_unit / 3 * left_norms.data()[r] * left_norms.data()[r] * right_square);
    }
  }
  for (const auto& other : plan.others) {
    Value value = values[next++].expanded(other.shape);
    value = other.transposed ? transposed(value) : as_matrix(value);
    add_multiple(times(value, probes, context), other.coefficient, probed.expected);
  }
  return probed;
}

// Whether the operands of products are exactly the values that the run computed with.
bool is_exact(const Expression& expression) {
  return std::all_of(expression.leaves.begin(), expression.leaves.end(),
                     [](const Leaf& leaf) { return leaf.exact; }) &&
         std::none_of(expression.steps.begin(), expression.steps.end(), [](const Step& step) {
           return step.node->primitive->rounding == Rounding::kWhereNarrower;
         });
}

}  // namespace

std::optional<ProductPlan> plan_of(const Expression& expression) {
  return Planner(expression).plan();
}

std::uint64_t plan_bytes(const Expression& expression, const ProductPlan& plan) {
  return peak_bytes(expression, operands_of(plan));
}

bool takes_leaves(const Expression& expression, const ProductPlan& plan) {
  const std::size_t leaves = expression.leaves.size();
  const auto is_leaf = [&](std::uint32_t value) {
    while (value >= leaves) {
      const Step& step = expression.steps[value - leaves];
      if (step.node->primitive->move == Move::kNone) return false;
      value = step.arguments.front();
    }
    return true;
  };
  return std::all_of(plan.products.begin(), plan.products.end(),
                     [&](const auto& product) {
                       return is_leaf(product.left) && is_leaf(product.right);
                     }) &&
         std::all_of(plan.others.begin(), plan.others.end(),
                     [&](const auto& other) { return is_leaf(other.value); });
}

std::optional<RowSums> probe(const Expression& expression, const ProductPlan& plan,
                             std::span<const Value> leaves, const Value& recorded,
                             const ExpressionOptions& options) {
  RowSums sums(recorded.shape());
  const std::uint64_t rows = sums.error.size();
  const Value probes = signs(last_extent(recorded.shape()), options.seed);
  const Value held = times(as_matrix(recorded), probes, options.context);
  const Probed exact =
      probe_expected(expression, plan, leaves, rows, probes, std::nullopt, options.context);
  const bool keeps_leaves = takes_leaves(expression, plan);
  std::optional<Probed> moved;
  if (!keeps_leaves || !is_exact(expression)) {
    moved = probe_expected(expression, plan, leaves, rows, probes,
                           Perturbation{Noise(options.seed).stream(1).bits(), keeps_leaves},
                           options.context);
  }
  double finite = 0;
  double drift = 0;
  for (std::uint64_t r = 0; r < rows; ++r) {
    for (std::uint64_t p = 0; p < kProbes; ++p) {
      const std::uint64_t i = r * kProbes + p;
      const double e = exact.expected[i];
      const double apart = held.data()[i] - e;
      const double spread = moved ? moved->expected[i] - e : 0;
      sums.error[r] += apart * apart / kProbes;
      sums.expected[r] += e * e / kProbes;
      sums.spread[r] += spread * spread / kProbes;
      sums.product += held.data()[i] * e / kProbes;
      drift += spread * e / kProbes;
    }
    sums.spread[r] += exact.products[r] + plan.rounding * sums.expected[r];
    finite += sums.error[r] + sums.spread[r] + sums.expected[r];
  }
  sums.moved = std::abs(drift);
  if (!std::isfinite(finite)) return std::nullopt;
  return sums;
}

}  // namespace ttrace::specification
