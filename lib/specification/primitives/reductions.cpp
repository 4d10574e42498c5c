// Reductions over dimensions.
#include <algorithm>
#include <cmath>

#include "base/functions.h"
#include "specification/primitives/families.h"
#include "specification/primitives/functions.h"
#include "specification/primitives/loops.h"
#include "specification/primitives/shape_rules.h"

namespace ttrace::specification {
namespace {

using tensor::Shape;

Shape reduced_shape(const ShapeCall& call) {
  const Shape& from = argument(call, 0);
  const std::vector<char> chosen = dimensions(call, "dims", from);
  const bool keep = call.attributes.flag("keep");
  Shape to;
  for (std::size_t d = 0; d < from.size(); ++d) {
    if (chosen[d] == 0) {
      to.push_back(from[d]);
    } else if (keep) {
      to.push_back(1);
    }
  }
  return to;
}

Shape along_shape(const ShapeCall& call) {
  dimension(call, "dim", argument(call, 0));
  return argument(call, 0);
}

// The elements that are reduced to one, as rows.
struct ReducedRows {
  Value dense;
  std::uint64_t count = 0;
  std::uint64_t length = 1;

  const double* row(std::uint64_t r) const { return dense.data() + r * length; }
};

ReducedRows reduced_rows(const EvaluationCall& call) {
  const Value& x = *call.arguments[0];
  std::vector<char> chosen(x.dimensions(), 0);
  for (const std::size_t dim : call.attributes.dims("dims")) chosen[dim] = 1;
  std::vector<std::size_t> order;
  ReducedRows rows;
  rows.count = 1;
  for (std::size_t d = 0; d < x.dimensions(); ++d) {
    if (chosen[d] != 0) continue;
    order.push_back(d);
    rows.count *= x.shape()[d];
  }
  for (std::size_t d = 0; d < x.dimensions(); ++d) {
    if (chosen[d] == 0) continue;
    order.push_back(d);
    rows.length *= x.shape()[d];
  }
  rows.dense = x.permuted(order).to_dense();
  return rows;
}

// Σ f(x[i]), in eight sums that are added in order.
template <typename F>
double sum_of(const double* x, std::uint64_t n, const F& f) {
  constexpr std::uint64_t kSums = 8;
  double sums[kSums] = {};
  std::uint64_t i = 0;
  for (; i + kSums <= n; i += kSums) {
    for (std::uint64_t s = 0; s < kSums; ++s) sums[s] += f(x[i + s]);
  }
  for (std::uint64_t s = 0; i < n; ++i, ++s) sums[s] += f(x[i]);
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

double plain_sum(const double* x, std::uint64_t n) {
  return sum_of(x, n, [](double value) { return value; });
}

// Calls reduce(row, length, index) for every row.
template <typename F>
Value reduce(const EvaluationCall& call, const F& reduce) {
  const ReducedRows rows = reduced_rows(call);
  Value result = Value::uninitialised(call.shape);
  for_rows(call.context, rows.count, rows.length, [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t r = begin; r < end; ++r) {
      result.fresh()[r] = reduce(rows.row(r), rows.length, r);
    }
  });
  return result;
}

// Whether the call adds up rows, as the gradient of a bias does. A kernel on a CPU may do that one
// row after the other in the type of the result.
bool adds_rows(const EvaluationCall& call) {
  const auto& dims = call.attributes.dims("dims");
  const std::size_t last = call.arguments[0]->dimensions() - 1;
  return !dims.empty() && std::find(dims.begin(), dims.end(), last) == dims.end();
}

double stepwise_roundoff(const double* x, std::uint64_t n, tensor::DType dtype) {
  StepwiseSum sum(dtype);
  for (std::uint64_t i = 0; i < n; ++i) sum.add(x[i]);
  return sum.lost();
}

// A simulated error of the additions of a sum.
double sum_noise(const EvaluationCall& call, const double* x, std::uint64_t n,
                 std::uint64_t index) {
  if (call.noise == nullptr || n < 2) return 0;
  const double square = sum_of(x, n, [](double value) { return value * value; });
  const double count = static_cast<double>(n);
  const double lost =
      sum_roundoff(call.dtype, std::sqrt(square) * std::sqrt(count), n, kRoundingsOfSum);
  const double stepwise = adds_rows(call) ? stepwise_roundoff(x, n, call.dtype) : 0;
  return call.noise->stream(1).at(index) * base::hypotenuse(lost, stepwise);
}

Value sum(const EvaluationCall& call) {
  return reduce(call, [&](const double* x, std::uint64_t n, std::uint64_t index) {
    return plain_sum(x, n) + sum_noise(call, x, n, index);
  });
}

Value mean(const EvaluationCall& call) {
  return reduce(call, [&](const double* x, std::uint64_t n, std::uint64_t index) {
    return (plain_sum(x, n) + sum_noise(call, x, n, index)) / static_cast<double>(n);
  });
}

Value product(const EvaluationCall& call) {
  return reduce(call, [](const double* x, std::uint64_t n, std::uint64_t) {
    double result = 1;
    for (std::uint64_t i = 0; i < n; ++i) result *= x[i];
    return result;
  });
}

// The first of the largest; NaN wins.
double largest(const double* x, std::uint64_t n) {
  double found = -std::numeric_limits<double>::infinity();
  for (std::uint64_t i = 0; i < n; ++i) {
    if (x[i] > found || std::isnan(x[i])) found = x[i];
    if (std::isnan(found)) break;
  }
  return found;
}

Value maximum(const EvaluationCall& call) {
  return reduce(call,
                [](const double* x, std::uint64_t n, std::uint64_t) { return largest(x, n); });
}

Value minimum(const EvaluationCall& call) {
  return reduce(call, [](const double* x, std::uint64_t n, std::uint64_t) {
    double found = std::numeric_limits<double>::infinity();
    for (std::uint64_t i = 0; i < n; ++i) {
      if (x[i] < found || std::isnan(x[i])) found = x[i];
      if (std::isnan(found)) break;
    }
    return found;
  });
}

Value any(const EvaluationCall& call) {
  return reduce(call, [](const double* x, std::uint64_t n, std::uint64_t) {
    return std::any_of(x, x + n, [](double value) { return value != 0; }) ? 1.0 : 0.0;
  });
}

Value all(const EvaluationCall& call) {
  return reduce(call, [](const double* x, std::uint64_t n, std::uint64_t) {
    return std::all_of(x, x + n, [](double value) { return value != 0; }) ? 1.0 : 0.0;
  });
}

// A simulated error of a sum of squares or exponentials, relative to it: two roundings of the
// accumulator, besides that of the result.
double relative_noise(const EvaluationCall& call, std::uint64_t index) {
  if (call.noise == nullptr) return 0;
  return 2 * accumulation_roundoff(call.dtype) * call.noise->stream(1).at(index);
}

Value variance(const EvaluationCall& call) {
  const double correction = call.attributes.number("correction");
  return reduce(call, [&](const double* x, std::uint64_t n, std::uint64_t index) {
    const double middle = plain_sum(x, n) / static_cast<double>(n);
    const auto square = [&](double value) { return (value - middle) * (value - middle); };
    const double squares = sum_of(x, n, square);
    const double count = static_cast<double>(n) - correction;
    if (call.noise == nullptr || !adds_rows(call)) {
      return squares / count * (1 + relative_noise(call, index));
    }
    // As in a sum, the squares may be added up one row after the other.
    StepwiseSum stepwise(call.dtype);
    for (std::uint64_t i = 0; i < n; ++i) stepwise.add(square(x[i]));
    const double lost =
        base::hypotenuse(2 * accumulation_roundoff(call.dtype) * squares, stepwise.lost());
    return (squares + lost * call.noise->stream(1).at(index)) / count;
  });
}

Value logsumexp(const EvaluationCall& call) {
  return reduce(call, [&](const double* x, std::uint64_t n, std::uint64_t index) {
    const double top = largest(x, n);
    if (!std::isfinite(top)) return top;
    const double total = sum_of(x, n, [&](double value) { return exponential(value - top); });
    const double rest = logarithm(total);
    if (call.noise == nullptr) return top + rest;
    // torch rounds the sum and its logarithm to the type of the result.
    return top + rest +
           2 * unit_roundoff(call.dtype) * base::hypotenuse(1.0, rest) *
               call.noise->stream(1).at(index);
  });
}

double norm_of(const double* x, std::uint64_t n, double order) {
  if (order == 2) return std::sqrt(sum_of(x, n, [](double value) { return value * value; }));
  if (order == 1) return sum_of(x, n, [](double value) { return std::abs(value); });
  if (std::isinf(order)) {
    double found = order > 0 ? 0.0 : std::numeric_limits<double>::infinity();
    for (std::uint64_t i = 0; i < n; ++i) {
      found = order > 0 ? std::max(found, std::abs(x[i])) : std::min(found, std::abs(x[i]));
    }
    return found;
  }
  return power(sum_of(x, n, [&](double value) { return power(std::abs(value), order); }),
               1 / order);
}

// The lanes in which a kernel on a CPU adds up a norm, each one element after the other: those of
// the narrowest vector units.
constexpr std::uint64_t kLanesOfNorm = 4;

// How far a sum of powers may be off, relative to it, by its additions in lanes.
double lost_in_lanes(const double* x, std::uint64_t n, double order, tensor::DType dtype) {
  double lost = 0;
  double total = 0;
  for (std::uint64_t lane = 0; lane < kLanesOfNorm; ++lane) {
    StepwiseSum sum(dtype);
    for (std::uint64_t i = lane; i < n; i += kLanesOfNorm) {
      const double term = order == 2 ? x[i] * x[i] : power(std::abs(x[i]), order);
      sum.add(term);
      total += term;
    }
    lost = base::hypotenuse(lost, sum.lost());
  }
  return total > 0 && std::isfinite(lost / total) ? lost / total : 0;
}

Value norm(const EvaluationCall& call) {
  const double order = call.attributes.number("order");
  return reduce(call, [&](const double* x, std::uint64_t n, std::uint64_t index) {
    const double found = norm_of(x, n, order);
    if (call.noise == nullptr || std::isinf(order) || order == 0) return found;
    // Everything that is divided by the norm shares its error, so that one small random number
    // would say nothing: it has its full size, and a sign.
    const bool is_double = call.dtype == tensor::DType::kFloat64;
    const double lanes =
        lost_in_lanes(x, n, order, is_double ? call.dtype : tensor::DType::kFloat32) / order;
    return found * (1 + relative_noise(call, index) + call.noise->stream(2).sign(index) * lanes);
  });
}

struct Running {
  double total = 0;
  double lost = 0;  // to roundings, so far
};

// `step` takes the next element of a line and its rounding, and returns the element of the result.
template <typename Step>
Value running(const EvaluationCall& call, double first, const Step& step) {
  const auto dim = static_cast<std::size_t>(call.attributes.integer("dim"));
  const Value x = with_last(*call.arguments[0], dim);
  Value result = Value::uninitialised(x.shape());
  const std::uint64_t n = x.shape().back();
  if (x.size() == 0) return with_last_at(result, dim);
  for_rows(call.context, x.size() / n, n, [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t r = begin; r < end; ++r) {
      Running so_far{first};
      for (std::uint64_t i = r * n; i < (r + 1) * n; ++i) {
        const double rounding =
            call.noise == nullptr ? 0 : call.noise->stream(1).at(i) * unit_roundoff(call.dtype);
        result.fresh()[i] = step(so_far, x.data()[i], rounding);
      }
    }
  });
  return with_last_at(result, dim);
}

Value cumsum(const EvaluationCall& call) {
  return running(call, 0, [](Running& sum, double x, double rounding) {
    sum.total += x;
    if (rounding != 0) sum.lost += rounding * sum.total;
    return sum.total + sum.lost;
  });
}

// Each product is made of the one before it, and rounded: the errors of a line add up.
Value cumprod(const EvaluationCall& call) {
  return running(call, 1, [](Running& product, double x, double rounding) {
    product.total *= x;
    product.lost += rounding;
    return product.total * (1 + product.lost);
  });
}

std::optional<ArgumentCuts> cut_reduced(const CutCall& call) {
  const std::vector<std::size_t>& reduced = call.attributes.dims("dims");
  const bool keep = call.attributes.flag("keep");
  std::size_t to = 0;
  for (std::size_t d = 0; d < call.arguments[0]->size(); ++d) {
    const bool gone = std::find(reduced.begin(), reduced.end(), d) != reduced.end();
    if (!gone && to == call.cut.dim) return ArgumentCuts{call.cut.along(d)};
    if (!gone || keep) ++to;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Primitive> reduction_primitives() {
  using enum AttributeType;
  using enum Rounding;
  const auto over_dims = [](std::string_view name, Rounding rounding, auto* evaluate,
                            std::vector<AttributeRule> more = {}) {
    std::vector<AttributeRule> attributes{{"dims", kDims}, {"keep", kFlag}};
    attributes.insert(attributes.end(), more.begin(), more.end());
    Primitive primitive =
        entry(name, {"x"}, 1, std::move(attributes), rounding, reduced_shape, evaluate);
    primitive.cut = cut_reduced;
    return primitive;
  };
  Primitive running = entry("cumsum", {"x"}, 1, {{"dim", kInteger}}, kOnce, along_shape, cumsum);
  running.cut = cut_across_lines;
  Primitive products = entry("cumprod", {"x"}, 1, {{"dim", kInteger}}, kOnce, along_shape, cumprod);
  products.cut = cut_across_lines;
  return {
      over_dims("sum", kOnce, sum),
      over_dims("mean", kOnce, mean),
      over_dims("product", kOnce, product),
      over_dims("max", kExact, maximum),
      over_dims("min", kExact, minimum),
      over_dims("any", kExact, any),
      over_dims("all", kExact, all),
      over_dims("variance", kOnce, variance, {{"correction", kNumber}}),
      over_dims("logsumexp", kOnce, logsumexp),
      over_dims("norm", kOnce, norm, {{"order", kNumber}}),
      running,
      products,
  };
}

}  // namespace ttrace::specification
