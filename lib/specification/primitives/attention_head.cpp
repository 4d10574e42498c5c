#include "specification/primitives/attention_head.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/functions.h"
#include "specification/primitives/functions.h"
#include "specification/primitives/noise.h"
#include "specification/primitives/softmax.h"

namespace ttrace::specification {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

}  // namespace

Attention::Attention(const EvaluationCall& call, std::size_t first)
    : call_(call),
      q_(call.arguments[first]->to_dense()),
      k_(call.arguments[first + 1]->to_dense()),
      v_(call.arguments[first + 2]->to_dense()),
      scale_(call.attributes.number("scale")),
      causal_(call.attributes.flag("causal")) {
  const std::size_t dims = q_.dimensions();
  heads_ = q_.shape()[dims - 3];
  groups_ = k_.shape()[dims - 3];
  rows_ = q_.shape()[dims - 2];
  columns_ = k_.shape()[dims - 2];
  depth_ = q_.shape().back();
  width_ = v_.shape().back();
  if (first == 1) g_ = call.arguments[0]->to_dense();
  if (const Value* mask = call.arguments[first + 3]) {
    tensor::Shape scores = q_.shape();
    scores.back() = columns_;
    mask_ = mask->expanded(scores);
    keeps_ = call.dtypes[first + 3] == tensor::DType::kBool;
  }
  if (call.noise != nullptr) {
    key_norms_ = row_norms(k_, call.context);
    value_norms_ = row_norms(v_, call.context);
    unit_ = unit_roundoff(call.dtype);
    accumulator_ = kAccumulation * accumulation_roundoff(call.dtype);
  }
}

Head Attention::head(std::uint64_t number) const {
  const std::uint64_t group = number / heads_per_group();
  Head head;
  head.number = number;
  head.q = matrix_at(q_, number);
  head.k = matrix_at(k_, group);
  head.v = matrix_at(v_, group);
  if (g_.dimensions() > 0) head.g = matrix_at(g_, number);
  if (mask_) head.mask = matrix_at(*mask_, number);
  return head;
}

void Attention::block(const Head& head, std::uint64_t begin, std::uint64_t end, bool derivative,
                      std::uint64_t reach, std::vector<double>& p, std::vector<double>& z) const {
  const std::uint64_t rows = end - begin;
  const auto stride = static_cast<std::int64_t>(reach);
  p.resize(rows * reach);
  multiply(rows, reach, depth_, at_row(head.q, begin), head.k.transposed(), p.data(), stride,
           false);
  for (std::uint64_t r = 0; r < rows; ++r) {
    probabilities(head, begin + r, reach, derivative, p.data() + r * reach);
  }
  if (!derivative) return;
  z.resize(rows * reach);
  const MatrixView g = at_row(head.g, begin);
  multiply(rows, reach, width_, g, head.v.transposed(), z.data(), stride, false);
  std::vector<double> output;
  std::optional<Noise> noise;
  if (call_.noise != nullptr) {
    noise = call_.noise->stream(4);
    output.resize(rows * width_);
    multiply(rows, width_, reach, {p.data(), stride, 1}, head.v, output.data(),
             static_cast<std::int64_t>(width_), false);
  }
  for (std::uint64_t r = 0; r < rows; ++r) {
    double* line = z.data() + r * reach;
    const double* weights = p.data() + r * reach;
    const std::uint64_t row = head.number * rows_ + begin + r;
    if (noise) round_products(head, g, r, row, reach, line);
    double inner = 0;
    for (std::uint64_t c = 0; c < reach; ++c) inner += weights[c] * line[c];
    if (noise) inner += rounding_of_inner(g, r, output.data() + r * width_, row, reach, inner);
    for (std::uint64_t c = 0; c < reach; ++c) line[c] = weights[c] * (line[c] - inner);
    for (std::uint64_t c = 0; noise && c < reach; ++c) {
      line[c] *= 1 + unit_ * noise->at(row * columns_ + c);
    }
  }
}

std::uint64_t Attention::reach(const Head& head, std::uint64_t begin, std::uint64_t end) const {
  std::uint64_t furthest = 0;
  for (std::uint64_t row = begin; row < end; ++row) {
    std::uint64_t own = causal_ ? std::min(columns_, row + 1) : columns_;
    while (own > 0 && is_hidden(head, row, own - 1)) --own;
    if (own == 0) return columns_;
    furthest = std::max(furthest, own);
  }
  return furthest;
}

bool Attention::is_hidden(const Head& head, std::uint64_t row, std::uint64_t column) const {
  if (!mask_) return false;
  const double mask = head.mask.data[static_cast<std::int64_t>(row) * head.mask.row_stride +
                                     static_cast<std::int64_t>(column) * head.mask.column_stride];
  return keeps_ ? mask == 0 : mask == kNever;
}

void Attention::probabilities(const Head& head, std::uint64_t row, std::uint64_t reach,
                              bool derivative, double* scores) const {
  const std::uint64_t number = head.number * rows_ + row;
  double length = 0;
  if (call_.noise != nullptr) {
    for (std::uint64_t d = 0; d < depth_; ++d) {
      const double x = q_.data()[number * depth_ + d];
      length += x * x;
    }
    length = std::sqrt(length) * accumulator_;
  }
  const double* keys = call_.noise != nullptr
                           ? key_norms_.data() + head.number / heads_per_group() * columns_
                           : nullptr;
  std::optional<Noise> noise;
  if (call_.noise != nullptr) noise = call_.noise->stream(2);
  const double coherent = coherent_roundoff(call_.dtype, depth_);
  for (std::uint64_t c = 0; c < reach; ++c) {
    if (noise) {
      scores[c] += noise->at(number * columns_ + c) *
                   base::hypotenuse(length * keys[c], coherent * scores[c]);
    }
    scores[c] *= scale_;
    if (mask_) {
      const double mask = head.mask.data[static_cast<std::int64_t>(row) * head.mask.row_stride +
                                         static_cast<std::int64_t>(c) * head.mask.column_stride];
      if (!keeps_) {
        scores[c] += mask;
      } else if (mask == 0) {
        scores[c] = kNever;
      }
    }
    if (causal_ && c > row) scores[c] = kNever;
  }
  const double top = noise ? *std::max_element(scores, scores + reach) : 0;
  softmax_row(scores, scores, reach);
  if (!noise) return;
  const Noise rounding = call_.noise->stream(3);
  const double largest = *std::max_element(scores, scores + reach);
  // Derivatives take p as e^(s - l) from a stored l = log Σ e^s, whose rounding they share.
  double shared = 0;
  if (derivative && largest > 0) {
    shared = accumulator_ * call_.noise->stream(6).at(number) * (top - logarithm(largest));
  }
  for (std::uint64_t c = 0; c < reach; ++c) {
    if (!(scores[c] > 0)) continue;
    // The relative error of e^x equals the absolute error of x.
    const double exponent = accumulator_ * logarithm(scores[c]);
    scores[c] *=
        1 + shared + base::hypotenuse(unit_, exponent) * rounding.at(number * columns_ + c);
  }
}

void Attention::round_products(const Head& head, const MatrixView& g, std::uint64_t r,
                               std::uint64_t row, std::uint64_t reach, double* line) const {
  double square = 0;
  for (std::uint64_t e = 0; e < width_; ++e) {
    const double x = g.data[static_cast<std::int64_t>(r) * g.row_stride +
                            static_cast<std::int64_t>(e) * g.column_stride];
    square += x * x;
  }
  const double length = accumulator_ * std::sqrt(square);
  const double* values = value_norms_.data() + head.number / heads_per_group() * columns_;
  const double coherent = coherent_roundoff(call_.dtype, width_);
  const Noise noise = call_.noise->stream(7);
  for (std::uint64_t c = 0; c < reach; ++c) {
    line[c] +=
        noise.at(row * columns_ + c) * base::hypotenuse(length * values[c], coherent * line[c]);
  }
}

double Attention::rounding_of_inner(const MatrixView& g, std::uint64_t r, const double* output,
                                    std::uint64_t row, std::uint64_t reach, double inner) const {
  double square = 0;
  for (std::uint64_t e = 0; e < width_; ++e) {
    const double term = g.data[static_cast<std::int64_t>(r) * g.row_stride +
                               static_cast<std::int64_t>(e) * g.column_stride] *
                        output[e];
    square += term * term;
  }
  const double of_output = base::hypotenuse(unit_, coherent_roundoff(call_.dtype, reach));
  const double of_sum = coherent_roundoff(call_.dtype, width_) * inner;
  return call_.noise->stream(5).at(row) * base::hypotenuse(of_output * std::sqrt(square), of_sum);
}

}  // namespace ttrace::specification
