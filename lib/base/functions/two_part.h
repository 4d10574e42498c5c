// A number in two parts: their sum has about 106 significant bits. Without fused operations, so
// that every machine makes the same bits, and without branches, so that compilers can vectorise.
#pragma once

#include <cstddef>

namespace ttrace::base {

struct TwoPart {
  double high = 0;
  double low = 0;

  constexpr double rounded() const { return high + low; }
};

// a + b, exactly. T. J. Dekker, A floating-point technique for extending the available precision
// (1971); D. E. Knuth, The Art of Computer Programming 2, 4.2.2.
constexpr TwoPart exact_sum(double a, double b) {
  const double sum = a + b;
  const double of_b = sum - a;
  return {sum, (a - (sum - of_b)) + (b - of_b)};
}

// The same for |a| >= |b|, or a = 0.
constexpr TwoPart exact_sum_of_ordered(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

// a · b, exactly where neither overflow nor underflow is near: both below 2^995.
constexpr TwoPart exact_product(double a, double b) {
  constexpr double kSplit = 0x1p27 + 1;
  const double a_scaled = kSplit * a;
  const double a_high = a_scaled - (a_scaled - a);
  const double a_low = a - a_high;
  const double b_scaled = kSplit * b;
  const double b_high = b_scaled - (b_scaled - b);
  const double b_low = b - b_high;
  const double product = a * b;
  return {product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low};
}

constexpr TwoPart operator*(TwoPart a, TwoPart b) {
  const TwoPart product = exact_product(a.high, b.high);
  return exact_sum_of_ordered(product.high, product.low + (a.high * b.low + a.low * b.high));
}

constexpr TwoPart operator+(TwoPart a, TwoPart b) {
  const TwoPart sum = exact_sum(a.high, b.high);
  return exact_sum_of_ordered(sum.high, sum.low + (a.low + b.low));
}

constexpr TwoPart operator/(TwoPart a, TwoPart b) {
  const double quotient = a.high / b.high;
  const TwoPart product = exact_product(quotient, b.high);
  const double rest = ((a.high - product.high) - product.low) + (a.low - quotient * b.low);
  return exact_sum_of_ordered(quotient, rest / b.high);
}

// The value of a polynomial at x: factors[0]·x^(n-1) + ... + factors[n-1].
template <std::size_t n>
constexpr double polynomial(const double (&factors)[n], double x) {
  double sum = factors[0];
  for (std::size_t i = 1; i < n; ++i) sum = sum * x + factors[i];
  return sum;
}

}  // namespace ttrace::base
