#include "replay/expression/probes.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include "replay/expression/evaluation.h"
#include "replay/primitives/loops.h"
#include "replay/primitives/products.h"
#include "replay/primitives/shape_rules.h"

namespace ttrace::replay {
namespace {

using tensor::Shape;

std::uint64_t last_extent(const Shape& shape) { return shape.empty() ? 1 : shape.back(); }

// Walks from the result down to products.
class Planner {
 public:
  explicit Planner(const Expression& expression) : expression_(expression) {}

  std::optional<ProductPlan> plan() {
    descend(expression_.result, false, 1);
    if (plan_.products.empty() || open_) return std::nullopt;
    return plan_;
  }

 private:
  Shape shape_of(std::uint32_t value) const {
    const std::size_t leaves = expression_.leaves.size();
    if (value < leaves) {
      return expression_.specification->tensors[expression_.leaves[value].tensor].shape;
    }
    return expression_.steps[value - leaves].node->shape;
  }

  void keep(std::uint32_t value, Shape shape, bool transposed, double sign) {
    open_ = open_ || is_open(shape);
    plan_.others.push_back({value, std::move(shape), transposed, sign});
  }

  void add_rounding(tensor::DType dtype) {
    const double unit = unit_roundoff(dtype);
    plan_.rounding += unit * unit / 3;
  }

  // `transposed`: the value is a matrix whose transpose is a term of the result.
  void descend(std::uint32_t value, bool transposed, double sign) {
    const std::size_t leaves = expression_.leaves.size();
    const Shape shape = shape_of(value);
    open_ = open_ || is_open(shape);
    if (value < leaves) return keep(value, shape, transposed, sign);
    const Step& step = expression_.steps[value - leaves];
    const std::string_view name = step.node->primitive->name;
    const auto argument = [&step](std::size_t i) { return step.arguments[i]; };

    if (name == "cast" && unit_roundoff(step.node->dtype) > 0) {
      if (unit_roundoff(step.node->dtype) >
          unit_roundoff(dtype_of_value(expression_, argument(0)))) {
        add_rounding(step.node->dtype);
      }
      return descend(argument(0), transposed, sign);
    }
    if (name == "negate") return descend(argument(0), transposed, -sign);
    if (name == "reshape") {
      const Shape from = shape_of(argument(0));
      const bool same_matrix = transposed
                                   ? from == shape
                                   : !from.empty() && !shape.empty() && from.back() == shape.back();
      if (same_matrix) return descend(argument(0), transposed, sign);
    }
    if (name == "permute" && shape.size() == 2 &&
        step.node->attributes.dims("dims") == std::vector<std::size_t>{1, 0}) {
      return descend(argument(0), !transposed, sign);
    }
    if (name == "add" || name == "subtract") {
      add_rounding(step.node->dtype);
      for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
        const double own = i == 1 && name == "subtract" ? -sign : sign;
        if (shape_of(argument(i)) == shape) {
          descend(argument(i), transposed, own);
        } else {
          keep(argument(i), shape, transposed, own);
        }
      }
      return;
    }
    if (name == "matmul" && shape_of(argument(1)).size() == 2 &&
        (!transposed || shape.size() == 2)) {
      plan_.products.push_back({argument(0), argument(1), transposed, sign, step.node->dtype});
      return;
    }
    keep(value, shape, transposed, sign);
  }

  const Expression& expression_;
  ProductPlan plan_;
  bool open_ = false;
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

void add(const Value& term, double sign, std::vector<double>& sum) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += sign * term.data()[i];
}

// The expected tensor times the probes, and what the roundings of its products may add.
struct Probed {
  std::vector<double> expected;  // rows × kProbes
  std::vector<double> products;  // Σ u²/3 · ‖row of a product‖² and the like, by row
};

Probed probe_expected(const Expression& expression, const ProductPlan& plan,
                      std::span<const Value> leaves, std::uint64_t rows, const Value& probes,
                      const std::optional<Perturbation>& perturbation,
                      const measure::ExecutionContext& context) {
  std::vector<std::uint32_t> wanted;
  for (const auto& product : plan.products) {
    wanted.push_back(product.left);
    wanted.push_back(product.right);
  }
  for (const auto& other : plan.others) wanted.push_back(other.value);
  const std::vector<Value> values =
      evaluate_values(expression, leaves, wanted, perturbation, context);

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
    add(term, product.sign, probed.expected);
    if (perturbation) continue;
    const Value left_norms = row_norms(left, context);
    const Value right_norms = row_norms(right, context);
    double right_square = 0;
    for (const double norm : right_norms.elements()) right_square += norm * norm;
    const double sum_unit = sum_roundoff(product.dtype, 1, left.shape()[1]);
    const double unit =
        std::hypot(unit_roundoff(product.dtype), coherent_roundoff(product.dtype, left.shape()[1]));
    for (std::uint64_t r = 0; r < rows; ++r) {
      double square = 0;
      for (std::uint64_t p = 0; p < kProbes; ++p) {
        square += term.data()[r * kProbes + p] * term.data()[r * kProbes + p];
      }
      probed.products[r] +=
          unit * unit / 3 * square / kProbes +
          sum_unit * sum_unit / 3 * left_norms.data()[r] * left_norms.data()[r] * right_square;
    }
  }
  for (const auto& other : plan.others) {
    Value value = values[next++].expanded(other.shape);
    value = other.transposed ? transposed(value) : as_matrix(value);
    add(times(value, probes, context), other.sign, probed.expected);
  }
  return probed;
}

// Whether nothing before a product is off: its operands are what the run computed with.
bool is_exact(const Expression& expression) {
  return std::all_of(expression.leaves.begin(), expression.leaves.end(),
                     [](const Leaf& leaf) { return leaf.exact; }) &&
         std::none_of(expression.steps.begin(), expression.steps.end(), [](const Step& step) {
           return step.node->primitive->rounding == Rounding::kCast;
         });
}

}  // namespace

std::optional<ProductPlan> plan_of(const Expression& expression) {
  return Planner(expression).plan();
}

bool takes_leaves(const Expression& expression, const ProductPlan& plan) {
  static const std::set<std::string_view> kMoves{"reshape", "permute", "expand", "slice", "cast"};
  const std::size_t leaves = expression.leaves.size();
  const auto is_leaf = [&](std::uint32_t value) {
    while (value >= leaves) {
      const Step& step = expression.steps[value - leaves];
      if (!kMoves.contains(step.node->primitive->name)) return false;
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

}  // namespace ttrace::replay
