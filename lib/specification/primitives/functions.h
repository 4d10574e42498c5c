// Functions of one number that formulas are made of.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/functions.h"

namespace ttrace::specification {

using base::angle_of_point;
using base::arccosine;
using base::arcsine;
using base::arctangent;
using base::cosine;
using base::error_function;
using base::exponential;
using base::hyperbolic_cosine;
using base::hyperbolic_sine;
using base::hyperbolic_tangent;
using base::inverse_hyperbolic_cosine;
using base::inverse_hyperbolic_sine;
using base::inverse_hyperbolic_tangent;
using base::logarithm;
using base::logarithm_of_1_plus;
using base::power;
using base::sine;

// log(1 + e^x), also where e^x overflows.
inline double softplus(double x) {
  return std::max(x, 0.0) + logarithm_of_1_plus(exponential(-std::abs(x)));
}

// T is double or RoundedNumber (rounded_number.h). Operands that are results themselves get names
// first: compilers evaluate operands in either order, and each rounding draws the next random
// number.
template <typename T>
T sigmoid(T x) {
  return 1.0 / (1.0 + exponential(-x));
}
// Returns g times the slope of the sigmoid where its value is y.
template <typename T>
T sigmoid_slope_times(T g, T y) {
  const T rest = 1.0 - y;
  const T part = g * y;
  return part * rest;
}
template <typename T>
T silu(T x) {
  return x * sigmoid(x);
}
template <typename T>
T silu_slope(T x) {
  const T s = sigmoid(x);
  return s * (1.0 + x * (1.0 - s));
}

template <typename T>
T gelu(T x) {
  const T twice_normal = 1.0 + error_function(std::numbers::sqrt2 / 2 * x);
  const T half = 0.5 * x;
  return half * twice_normal;
}
template <typename T>
T gelu_slope(T x) {
  const T density = std::numbers::inv_sqrtpi / std::numbers::sqrt2 * exponential(-0.5 * x * x);
  const T moved = x * density;
  const T normal = 0.5 * (1.0 + error_function(std::numbers::sqrt2 / 2 * x));
  return normal + moved;
}

inline constexpr double kGeluCubic = 0.044715;
template <typename T>
T gelu_tanh_argument(T x) {
  return std::numbers::sqrt2 * std::numbers::inv_sqrtpi * (x + kGeluCubic * x * x * x);
}
template <typename T>
T gelu_tanh(T x) {
  const T twice_normal = 1.0 + hyperbolic_tangent(gelu_tanh_argument(x));
  const T half = 0.5 * x;
  return half * twice_normal;
}
template <typename T>
T gelu_tanh_slope(T x) {
  const T t = hyperbolic_tangent(gelu_tanh_argument(x));
  const T inner = std::numbers::sqrt2 * std::numbers::inv_sqrtpi * (1.0 + 3 * kGeluCubic * x * x);
  const T slope = 1.0 - t * t;
  const T half = 0.5 * x;
  const T moved = half * slope * inner;
  const T normal = 0.5 * (1.0 + t);
  return normal + moved;
}

// x - y·⌊x/y⌋, exact.
inline double floored_remainder(double x, double y) {
  const double r = std::fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

}  // namespace ttrace::specification
