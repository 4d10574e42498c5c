// Softmax, its logarithm and their derivatives.
#include "specification/primitives/softmax.h"

#include <array>
#include <cmath>

#include "base/functions.h"
#include "specification/primitives/exponential.h"
#include "specification/primitives/families.h"
#include "specification/primitives/functions.h"
#include "specification/primitives/loops.h"
#include "specification/primitives/noise.h"
#include "specification/primitives/rounded_number.h"
#include "specification/primitives/shape_rules.h"

namespace ttrace::specification {
namespace {

using tensor::Shape;

Shape softmax_shape(const ShapeCall& call) {
  const Shape shape = like_first_rule(call);
  dimension(call, "dim", shape);
  return shape;
}

// Calls work(arguments, result, n, number) for every line along `dim`; all are dense there.
template <std::size_t N, typename Work>
Value along(const EvaluationCall& call, const Work& work) {
  const auto dim = static_cast<std::size_t>(call.attributes.integer("dim"));
  std::array<Value, N> lines;
  for (std::size_t k = 0; k < N; ++k) lines[k] = with_last(*call.arguments[k], dim);
  Value result = Value::uninitialised(lines[0].shape());
  if (result.size() == 0) return with_last_at(result, dim);
  const std::uint64_t n = result.shape().back();
  double* out = result.fresh();
  for_rows(call.context, result.size() / n, n, [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t r = begin; r < end; ++r) {
      std::array<const double*, N> at{};
      for (std::size_t k = 0; k < N; ++k) at[k] = lines[k].data() + r * n;
      work(at, out + r * n, n, r);
    }
  });
  return with_last_at(result, dim);
}

// Sums a line as kernels do in binary32: along the last dimension in several accumulators (torch on
// a CPU has 8 or 16, a GPU more), along others in one. Terms smaller than a rounding of their
// accumulator vanish, and equal terms are rounded alike: with a vocabulary of 50,000 and a label
// that the model is sure of, an eighth of the loss vanishes.
class LineSum {
 public:
  explicit LineSum(const EvaluationCall& call) {
    const auto dim = static_cast<std::size_t>(call.attributes.integer("dim"));
    if (dim + 1 < call.arguments[0]->shape().size()) lanes_ = 1;
  }

  void add(double term) {
    sums_[next_] += static_cast<float>(term);
    if (++next_ == lanes_) next_ = 0;
  }

  double total() const {
    float total = 0;
    for (std::size_t lane = 0; lane < lanes_; ++lane) total += sums_[lane];
    return total;
  }

 private:
  std::size_t lanes_ = 8;
  std::size_t next_ = 0;
  std::array<float, 8> sums_{};
};

// Roundings inside the operation, which kernels compute in binary32 or wider.
struct Inside {
  std::optional<Noise> of_rows;
  std::optional<Noise> of_elements;
  double unit = 0;

  explicit Inside(const EvaluationCall& call) : unit(accumulation_roundoff(call.dtype)) {
    if (call.noise == nullptr) return;
    of_rows = call.noise->stream(1);
    of_elements = call.noise->stream(2);
  }

  explicit operator bool() const { return of_rows.has_value(); }
  // Whether sums are made in binary32.
  bool single() const { return of_rows && unit > 0x1p-30; }
  double row(std::uint64_t r) const { return unit * of_rows->at(r); }
  double element(std::uint64_t i) const { return unit * of_elements->at(i); }
};

Value softmax(const EvaluationCall& call) {
  const Inside inside(call);
  return along<1>(call, [&](const auto& at, double* out, std::uint64_t n, std::uint64_t r) {
    softmax_row(at[0], out, n);
    if (!inside) return;
    const double top = *std::max_element(at[0], at[0] + n);
    if (inside.single()) {
      LineSum sum(call);
      for (std::uint64_t i = 0; i < n; ++i) sum.add(out[i]);
      for (std::uint64_t i = 0; i < n; ++i) out[i] /= sum.total();
    }
    for (std::uint64_t i = 0; i < n; ++i) {
      // The relative error of e^(x - top) equals the absolute error of x - top.
      const double lost = base::hypotenuse(kFunctionRoundings, at[0][i] - top);
      if (out[i] != 0) {
        out[i] *= 1 + kFunctionRoundings * inside.row(r) + lost * inside.element(r * n + i);
      }
    }
  });
}

Value log_softmax(const EvaluationCall& call) {
  const Inside inside(call);
  return along<1>(call, [&](const auto& at, double* out, std::uint64_t n, std::uint64_t r) {
    const double* x = at[0];
    const double top = *std::max_element(x, x + n);
    double total = add_exponentials(x, top, inside.single() ? out : nullptr, n);
    if (inside.single()) {
      LineSum sum(call);
      for (std::uint64_t i = 0; i < n; ++i) sum.add(out[i]);
      total = sum.total();
    }
    double log_total = logarithm(total);
    // A relative error of the sum, which is at least 1, is an absolute error of its logarithm.
    if (inside) log_total += kFunctionRoundings * inside.row(r) * base::hypotenuse(1.0, log_total);
    for (std::uint64_t i = 0; i < n; ++i) {
      double difference = x[i] - top;
      if (inside) difference *= 1 + inside.element(r * n + i);
      out[i] = difference - log_total;
    }
  });
}

Value softmax_grad(const EvaluationCall& call) {
  const Inside inside(call);
  return along<2>(call, [&](const auto& at, double* out, std::uint64_t n, std::uint64_t r) {
    double inner = 0;
    double squares = 0;
    LineSum sum(call);
    for (std::uint64_t i = 0; i < n; ++i) {
      const double term = at[0][i] * at[1][i];
      inner += term;
      squares += term * term;
      if (inside) sum.add(term);
    }
    if (inside.single()) inner = sum.total();
    if (inside) inner += inside.row(r) * std::sqrt(squares + inner * inner);
    for (std::uint64_t i = 0; i < n; ++i) {
      double difference = at[0][i] - inner;
      if (inside) difference *= 1 + inside.element(r * n + i);
      out[i] = at[1][i] * difference;
    }
  });
}

Value log_softmax_grad(const EvaluationCall& call) {
  const Inside inside(call);
  return along<2>(call, [&](const auto& at, double* out, std::uint64_t n, std::uint64_t r) {
    double total = 0;
    double squares = 0;
    LineSum sum(call);
    for (std::uint64_t i = 0; i < n; ++i) {
      total += at[0][i];
      squares += at[0][i] * at[0][i];
      if (inside) sum.add(at[0][i]);
    }
    if (inside.single()) total = sum.total();
    if (inside) total += inside.row(r) * std::sqrt(squares);
    add_exponentials(at[1], 0, out, n);
    for (std::uint64_t i = 0; i < n; ++i) {
      if (inside) out[i] *= 1 + kFunctionRoundings * inside.element(r * n + i);
      out[i] = at[0][i] - out[i] * total;
    }
  });
}

}  // namespace

void softmax_row(const double* x, double* out, std::uint64_t n) {
  const double top = *std::max_element(x, x + n);
  const double total = add_exponentials(x, top, out, n);
  for (std::uint64_t i = 0; i < n; ++i) out[i] /= total;
}

std::vector<Primitive> softmax_primitives() {
  using enum Rounding;
  const std::vector<AttributeRule> dim{{"dim", AttributeType::kInteger}};
  std::vector<Primitive> all{
      entry("softmax", {"x"}, 1, dim, kOnce, softmax_shape, softmax),
      entry("log_softmax", {"x"}, 1, dim, kOnce, softmax_shape, log_softmax),
      entry("softmax_grad", {"g", "y"}, 2, dim, kOnce, softmax_shape, softmax_grad),
      entry("log_softmax_grad", {"g", "y"}, 2, dim, kOnce, softmax_shape, log_softmax_grad),
  };
  for (Primitive& primitive : all) {
    primitive.cut = cut_across_lines;
    primitive.shape_is_layout = true;
  }
  all[1].worth_sharing = true;  // covers a whole vocabulary, and many gradients take it
  return all;
}

}  // namespace ttrace::specification
