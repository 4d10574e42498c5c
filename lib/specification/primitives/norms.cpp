// Layer norm and RMS norm over the last dimensions, and their derivatives.
#include <cmath>

#include "base/functions.h"
#include "specification/primitives/families.h"
#include "specification/primitives/loops.h"
#include "specification/primitives/shape_rules.h"

namespace ttrace::specification {
namespace {

using tensor::Shape;

std::size_t normalized_dims(const ShapeCall& call, const Shape& x) {
  const std::int64_t count = call.attributes.integer("count");
  if (count < 1 || static_cast<std::uint64_t>(count) > x.size()) {
    throw shape_error("\"count\" is ", count, ", of ", x.size(), " dimensions");
  }
  return static_cast<std::size_t>(count);
}

Shape last_of(const Shape& x, std::size_t count) {
  return {x.end() - static_cast<std::ptrdiff_t>(count), x.end()};
}

template <std::size_t kX>
void check_weights(const ShapeCall& call) {
  const Shape& x = argument(call, kX);
  const std::size_t count = normalized_dims(call, x);
  for (std::size_t i = kX + 1; i < call.arguments.size(); ++i) {
    if (call.arguments[i] != nullptr) {
      require_fit("a weight", *call.arguments[i], last_of(x, count));
    }
  }
}

Shape forward_shape(const ShapeCall& call) {
  check_weights<0>(call);
  return argument(call, 0);
}

Shape statistic_shape(const ShapeCall& call) {
  Shape shape = argument(call, 0);
  const std::size_t count = normalized_dims(call, shape);
  std::fill(shape.end() - static_cast<std::ptrdiff_t>(count), shape.end(), 1);
  return shape;
}

Shape input_shape(const ShapeCall& call) {
  require_fit("g", argument(call, 0), argument(call, 1));
  check_weights<1>(call);
  return argument(call, 1);
}

Shape weight_shape(const ShapeCall& call) {
  require_fit("g", argument(call, 0), argument(call, 1));
  return last_of(argument(call, 1), normalized_dims(call, argument(call, 1)));
}

// x as rows of the elements that are normalised together.
struct NormalizedRows {
  Value x;
  std::uint64_t count = 0;
  std::uint64_t length = 1;
  double eps = 0;
  bool centred = false;  // layer norm
  std::optional<Noise> noise;
  double unit = 0;  // the roundoff of what a kernel computes with inside, binary32 or wider

  NormalizedRows(const EvaluationCall& call, const Value& value, bool is_centred)
      : x(value.to_dense()),
        eps(call.attributes.number("eps")),
        centred(is_centred),
        unit(accumulation_roundoff(call.dtype)) {
    if (call.noise != nullptr) noise = call.noise->stream(2);
    const auto last = static_cast<std::size_t>(call.attributes.integer("count"));
    for (std::size_t d = 0; d < last; ++d) length *= x.shape()[x.dimensions() - 1 - d];
    count = length == 0 ? 0 : x.size() / length;
  }

  struct Statistics {
    double mean = 0;
    double scale = 0;  // r
  };
  Statistics statistics(std::uint64_t row) const {
    const double* at = x.data() + row * length;
    const auto n = static_cast<double>(length);
    Statistics found;
    if (centred) {
      for (std::uint64_t i = 0; i < length; ++i) found.mean += at[i];
      found.mean /= n;
    }
    double squares = 0;
    for (std::uint64_t i = 0; i < length; ++i) {
      squares += (at[i] - found.mean) * (at[i] - found.mean);
    }
    found.scale = 1 / std::sqrt(squares / n + eps);
    if (noise) {
      const double size = std::sqrt(squares / n + found.mean * found.mean);
      if (centred) found.mean += unit * noise->at(2 * row) * size;
      found.scale *= 1 + kRoundingsOfScale * unit * noise->at(2 * row + 1);
    }
    return found;
  }

  // The error of an element h = (x - mean)·r beyond that of the statistics: kernels compute it as
  // x·r - mean·r.
  double lost_of_normalised(double element, const Statistics& row) const {
    return unit * base::hypotenuse(element, row.mean) * row.scale;
  }

  // Roundings of the scale, for the sum of squares, its root and the inverse.
  static constexpr double kRoundingsOfScale = 2;
};

// Calls work(row, statistics) for every row.
template <typename Work>
void for_each_row(const EvaluationCall& call, const NormalizedRows& rows, const Work& work) {
  for_rows(call.context, rows.count, rows.length, [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t r = begin; r < end; ++r) work(r, rows.statistics(r));
  });
}

std::optional<Value> dense_argument(const EvaluationCall& call, std::size_t position) {
  if (position >= call.arguments.size() || call.arguments[position] == nullptr) return {};
  return call.arguments[position]->to_dense();
}

std::optional<Noise> stream_of(const EvaluationCall& call, std::uint64_t number) {
  if (call.noise == nullptr) return std::nullopt;
  return call.noise->stream(number);
}

template <bool centred>
Value forward(const EvaluationCall& call) {
  const NormalizedRows rows(call, *call.arguments[0], centred);
  const auto weight = dense_argument(call, 1);
  const auto bias = dense_argument(call, 2);
  Value result = Value::uninitialised(call.shape);
  const std::optional<Noise> noise = stream_of(call, 3);
  for_each_row(call, rows, [&](std::uint64_t r, const NormalizedRows::Statistics& row) {
    const double* x = rows.x.data() + r * rows.length;
    double* out = result.fresh() + r * rows.length;
    for (std::uint64_t i = 0; i < rows.length; ++i) {
      double h = (x[i] - row.mean) * row.scale;
      if (noise) h += noise->at(r * rows.length + i) * rows.lost_of_normalised(x[i], row);
      if (weight) h *= weight->data()[i];
      if (bias) h += bias->data()[i];
      out[i] = h;
    }
  });
  return result;
}

template <bool scale>
Value statistic(const EvaluationCall& call) {
  const NormalizedRows rows(call, *call.arguments[0], true);
  Value result = Value::uninitialised(call.shape);
  for_each_row(call, rows, [&](std::uint64_t r, const NormalizedRows::Statistics& row) {
    result.fresh()[r] = scale ? row.scale : row.mean;
  });
  return result;
}

template <bool centred>
Value grad_input(const EvaluationCall& call) {
  const NormalizedRows rows(call, *call.arguments[1], centred);
  const Value g = call.arguments[0]->to_dense();
  const auto weight = dense_argument(call, 2);
  Value result = Value::uninitialised(call.shape);
  const std::optional<Noise> of_rows = stream_of(call, 3);
  const std::optional<Noise> of_elements = stream_of(call, 4);
  for_each_row(call, rows, [&](std::uint64_t r, const NormalizedRows::Statistics& row) {
    const double* x = rows.x.data() + r * rows.length;
    const double* grad = g.data() + r * rows.length;
    double* out = result.fresh() + r * rows.length;
    const auto n = static_cast<double>(rows.length);
    double mean_q = 0;
    double mean_qh = 0;
    double squares = 0;     // Σ q²
    double lost_of_qh = 0;  // Σ (q · what h loses)²
    for (std::uint64_t i = 0; i < rows.length; ++i) {
      const double q = weight ? grad[i] * weight->data()[i] : grad[i];
      out[i] = q;
      mean_q += q;
      mean_qh += q * ((x[i] - row.mean) * row.scale);
      if (!of_rows) continue;
      const double lost = q * rows.lost_of_normalised(x[i], row);
      squares += q * q;
      lost_of_qh += lost * lost;
    }
    mean_q = centred ? mean_q / n : 0;
    mean_qh /= n;
    if (of_rows) {
      // Sums of n terms lose about u·√n·‖terms‖.
      if (centred) mean_q += of_rows->at(2 * r) * rows.unit * std::sqrt(squares / n);
      mean_qh += of_rows->at(2 * r + 1) * std::sqrt(lost_of_qh / n);
    }
    for (std::uint64_t i = 0; i < rows.length; ++i) {
      const double h = (x[i] - row.mean) * row.scale;
      double inner = out[i] - mean_q - h * mean_qh;
      if (of_elements) {
        const double lost =
            base::hypotenuse(rows.unit * out[i], rows.lost_of_normalised(x[i], row) * mean_qh);
        inner += of_elements->at(r * rows.length + i) * lost;
      }
      out[i] = row.scale * inner;
    }
  });
  return result;
}

template <bool centred>
Value grad_weight(const EvaluationCall& call) {
  const NormalizedRows rows(call, *call.arguments[1], centred);
  const Value g = call.arguments[0]->to_dense();
  std::vector<NormalizedRows::Statistics> statistics(rows.count);
  for_each_row(call, rows, [&](std::uint64_t r, const NormalizedRows::Statistics& row) {
    statistics[r] = row;
  });
  Value result = Value::uninitialised(call.shape);
  double* out = result.fresh();
  for_ranges(call.context, rows.length, 64, [&](std::uint64_t begin, std::uint64_t end) {
    std::vector<double> squares(end - begin, 0.0);
    std::vector<StepwiseSum> stepwise(end - begin, StepwiseSum(call.dtype));
    std::vector<double> inside(end - begin, 0.0);  // Σ (what a term loses)²
    std::fill(out + begin, out + end, 0.0);
    for (std::uint64_t r = 0; r < rows.count; ++r) {
      const double* x = rows.x.data() + r * rows.length;
      const double* grad = g.data() + r * rows.length;
      for (std::uint64_t i = begin; i < end; ++i) {
        const double term = grad[i] * ((x[i] - statistics[r].mean) * statistics[r].scale);
        out[i] += term;
        if (call.noise == nullptr) continue;
        squares[i - begin] += term * term;
        stepwise[i - begin].add(term);
        const double lost = grad[i] * rows.lost_of_normalised(x[i], statistics[r]);
        inside[i - begin] += lost * lost;
      }
    }
    if (call.noise == nullptr) return;
    for (std::uint64_t i = begin; i < end; ++i) {
      const double norms = std::sqrt(squares[i - begin] * static_cast<double>(rows.count));
      // As in reductions.cpp: rows may have been added up one after the other.
      out[i] += call.noise->stream(1).at(i) *
                base::hypotenuse(
                    base::hypotenuse(sum_roundoff(call.dtype, norms, rows.count, kRoundingsOfSum),
                                     stepwise[i - begin].lost()),
                    std::sqrt(inside[i - begin]));
    }
  });
  return result;
}

// Rows are computed as a whole, with whole weights.
std::optional<ArgumentCuts> cut_rows(const CutCall& call) {
  const auto count = static_cast<std::size_t>(call.attributes.integer("count"));
  if (call.cut.dim >= call.shape.size() - count) return std::nullopt;
  ArgumentCuts cuts;
  for (const Shape* argument : call.arguments) {
    const bool is_weight = argument->size() < call.shape.size();
    cuts.push_back(is_weight ? std::nullopt : std::optional(call.cut));
  }
  return cuts;
}

Primitive by_rows(Primitive primitive) {
  primitive.cut = cut_rows;
  return primitive;
}

}  // namespace

std::vector<Primitive> norm_primitives() {
  using enum AttributeType;
  using enum Rounding;
  const std::vector<AttributeRule> attributes{{"count", kInteger}, {"eps", kNumber}};
  std::vector<Primitive> all{
      by_rows(entry("layer_norm", {"x", "weight", "bias"}, 1, attributes, kOnce, forward_shape,
                    forward<true>)),
      entry("layer_norm_mean", {"x"}, 1, attributes, kOnce, statistic_shape, statistic<false>),
      entry("layer_norm_rstd", {"x"}, 1, attributes, kOnce, statistic_shape, statistic<true>),
      by_rows(entry("layer_norm_grad_input", {"g", "x", "weight"}, 2, attributes, kOnce,
                    input_shape, grad_input<true>)),
      entry("layer_norm_grad_weight", {"g", "x"}, 2, attributes, kOnce, weight_shape,
            grad_weight<true>),
      by_rows(
          entry("rms_norm", {"x", "weight"}, 1, attributes, kOnce, forward_shape, forward<false>)),
      by_rows(entry("rms_norm_grad_input", {"g", "x", "weight"}, 2, attributes, kOnce, input_shape,
                    grad_input<false>)),
      entry("rms_norm_grad_weight", {"g", "x"}, 2, attributes, kOnce, weight_shape,
            grad_weight<false>),
  };
  for (Primitive& primitive : all) primitive.shape_is_layout = true;
  return all;
}

}  // namespace ttrace::specification
