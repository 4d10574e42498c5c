// A number that is rounded after every operation. A formula that is evaluated with it shows the
// effect of the roundings inside an operation, which the specification counts as one rounding.
#pragma once

#include <cstdint>

#include "specification/primitives/functions.h"
#include "specification/primitives/noise.h"

namespace ttrace::specification {

// The error of a library function (exp, log, erf, tanh, ...), in unit roundoffs: a unit in the last
// place, as torch's functions on a CPU have it. https://sleef.org/purec.xhtml
inline constexpr double kFunctionRoundings = 2;
// The error of erf inside a GELU, in unit roundoffs of 1: torch's kernel for a CPU takes it from
// 1 - p(t)·e^(-x²) (Abramowitz and Stegun, 7.1.26), so that it is absolute. Measured: 4.
inline constexpr double kErfRoundings = 4;

// Gives every operation a random number of its own.
class RoundingSource {
 public:
  // `unit` is the unit roundoff, `element` the position in the result.
  RoundingSource(const Noise& noise, double unit, std::uint64_t element)
      : noise_(noise), unit_(unit), next_(element << kBits) {}

  double round(double value, double roundings = 1) {
    return value * (1 + roundings * unit_ * noise_.at(next_++));
  }

 private:
  static constexpr unsigned kBits = 5;  // no formula has 32 operations

  const Noise& noise_;
  double unit_;
  std::uint64_t next_;
};

class RoundedNumber {
 public:
  RoundedNumber(double value, RoundingSource& source) : value_(value), source_(&source) {}
  double value() const { return value_; }

  RoundedNumber operator-() const { return {-value_, *source_}; }
  friend RoundedNumber operator+(RoundedNumber x, RoundedNumber y) {
    return x.rounded(x.value_ + y.value_);
  }
  friend RoundedNumber operator-(RoundedNumber x, RoundedNumber y) {
    return x.rounded(x.value_ - y.value_);
  }
  friend RoundedNumber operator*(RoundedNumber x, RoundedNumber y) {
    return x.rounded(x.value_ * y.value_);
  }
  friend RoundedNumber operator+(double x, RoundedNumber y) { return y.rounded(x + y.value_); }
  friend RoundedNumber operator-(double x, RoundedNumber y) { return y.rounded(x - y.value_); }
  friend RoundedNumber operator*(double x, RoundedNumber y) { return y.rounded(x * y.value_); }
  friend RoundedNumber operator/(double x, RoundedNumber y) { return y.rounded(x / y.value_); }

  friend RoundedNumber exponential(RoundedNumber x) { return x.function(exponential(x.value_)); }
  friend RoundedNumber logarithm(RoundedNumber x) { return x.function(logarithm(x.value_)); }
  friend RoundedNumber sine(RoundedNumber x) { return x.function(sine(x.value_)); }
  friend RoundedNumber cosine(RoundedNumber x) { return x.function(cosine(x.value_)); }
  friend RoundedNumber hyperbolic_sine(RoundedNumber x) {
    return x.function(hyperbolic_sine(x.value_));
  }
  friend RoundedNumber hyperbolic_cosine(RoundedNumber x) {
    return x.function(hyperbolic_cosine(x.value_));
  }
  friend RoundedNumber hyperbolic_tangent(RoundedNumber x) {
    return x.function(hyperbolic_tangent(x.value_));
  }
  friend RoundedNumber arcsine(RoundedNumber x) { return x.function(arcsine(x.value_)); }
  friend RoundedNumber arccosine(RoundedNumber x) { return x.function(arccosine(x.value_)); }
  friend RoundedNumber arctangent(RoundedNumber x) { return x.function(arctangent(x.value_)); }
  friend RoundedNumber angle_of_point(RoundedNumber y, RoundedNumber x) {
    return y.function(angle_of_point(y.value_, x.value_));
  }
  friend RoundedNumber inverse_hyperbolic_sine(RoundedNumber x) {
    return x.function(inverse_hyperbolic_sine(x.value_));
  }
  friend RoundedNumber inverse_hyperbolic_cosine(RoundedNumber x) {
    return x.function(inverse_hyperbolic_cosine(x.value_));
  }
  friend RoundedNumber inverse_hyperbolic_tangent(RoundedNumber x) {
    return x.function(inverse_hyperbolic_tangent(x.value_));
  }
  friend RoundedNumber error_function(RoundedNumber x) {
    const double value = error_function(x.value_);
    return {value + x.source_->round(1, kErfRoundings) - 1, *x.source_};
  }
  friend RoundedNumber softplus(RoundedNumber x) { return x.function(softplus(x.value_)); }
  // Squares and square roots are made without the library's pow.
  friend RoundedNumber power(RoundedNumber x, RoundedNumber y) {
    const double value = power(x.value_, y.value_);
    return y.value_ == 2 || y.value_ == 0.5 ? x.rounded(value) : x.function(value);
  }

 private:
  RoundedNumber rounded(double value) const { return {source_->round(value), *source_}; }
  RoundedNumber function(double value) const {
    return {source_->round(value, kFunctionRoundings), *source_};
  }

  double value_;
  RoundingSource* source_;
};

}  // namespace ttrace::specification
