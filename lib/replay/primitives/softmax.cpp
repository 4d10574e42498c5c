// Softmax, its logarithm and their derivatives.
#include "replay/primitives/softmax.h"

#include <cmath>

#include "replay/primitives/families.h"
#include "replay/primitives/functions.h"
#include "replay/primitives/loops.h"
#include "replay/primitives/shape_rules.h"

namespace ttrace::replay {
namespace {

using tensor::Shape;

Shape shape_rule(const ShapeCall& call) {
  const Shape shape = like_first_rule(call);
  dimension(call, "dim", shape);
  return shape;
}

// Calls work(arguments, result, n) for every line along `dim`; all are dense there.
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
      work(at, out + r * n, n);
    }
  });
  return with_last_at(result, dim);
}

Value softmax(const EvaluationCall& call) {
  return along<1>(call,
                  [](const auto& at, double* out, std::uint64_t n) { softmax_row(at[0], out, n); });
}

Value log_softmax(const EvaluationCall& call) {
  return along<1>(call, [](const auto& at, double* out, std::uint64_t n) {
    const double* x = at[0];
    const double top = *std::max_element(x, x + n);
    const double log_total = logarithm(add_exponentials(x, top, nullptr, n));
    for (std::uint64_t i = 0; i < n; ++i) out[i] = x[i] - top - log_total;
  });
}

Value softmax_grad(const EvaluationCall& call) {
  return along<2>(call, [](const auto& at, double* out, std::uint64_t n) {
    double inner = 0;
    for (std::uint64_t i = 0; i < n; ++i) inner += at[0][i] * at[1][i];
    for (std::uint64_t i = 0; i < n; ++i) out[i] = at[1][i] * (at[0][i] - inner);
  });
}

Value log_softmax_grad(const EvaluationCall& call) {
  return along<2>(call, [](const auto& at, double* out, std::uint64_t n) {
    double total = 0;
    for (std::uint64_t i = 0; i < n; ++i) total += at[0][i];
    add_exponentials(at[1], 0, out, n);
    for (std::uint64_t i = 0; i < n; ++i) out[i] = at[0][i] - out[i] * total;
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
  return {
      {"softmax", {"x"}, 1, false, dim, kOnce, shape_rule, softmax},
      {"log_softmax", {"x"}, 1, false, dim, kOnce, shape_rule, log_softmax},
      {"softmax_grad", {"g", "y"}, 2, false, dim, kOnce, shape_rule, softmax_grad},
      {"log_softmax_grad", {"g", "y"}, 2, false, dim, kOnce, shape_rule, log_softmax_grad},
  };
}

}  // namespace ttrace::replay
