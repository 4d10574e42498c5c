// Logarithms. All are computed in two parts and rounded once, so that the decimal logarithm of a
// power of ten is whole.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/functions/exponential.h"
#include "base/functions/two_part.h"

namespace ttrace::base {

// x = mantissa · 2^exponent with a mantissa from √½ to √2, for a normal x > 0. Any two numbers for
// another x.
struct Scaled {
  double mantissa = 1;
  std::int64_t exponent = 0;
};
inline Scaled scaled_near_1(double x) {
  constexpr std::uint64_t kRootOfHalf = 0x3fe6a09e667f3bcd;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::int64_t exponent = static_cast<std::int64_t>(bits - kRootOfHalf) >> 52;
  return {std::bit_cast<double>(bits - (static_cast<std::uint64_t>(exponent) << 52)), exponent};
}

// Mantissas with the same first bits. `factor` brings them near 1 and has so few bits that its
// product with 26 bits is exact; `logarithm` is that of 1 / factor.
struct NearMantissas {
  double factor = 1;
  TwoPart logarithm;
};

// Counted from the sign bit; the last seven belong to the fraction.
inline constexpr int kBitsOfMantissa = 19;

// Returns ln x as 2·(s + s³/3 + s⁵/5 + ...) with s = (x - 1)/(x + 1), where s² < 0.04.
constexpr TwoPart logarithm_by_series(double x) {
  const TwoPart s = TwoPart{x - 1} / TwoPart{x + 1};
  const TwoPart square = s * s;
  TwoPart sum;
  for (int n = 51; n > 0; n -= 2) sum = sum * square + TwoPart{1} / TwoPart{n * 1.0};
  const TwoPart half = s * sum;
  return {2 * half.high, 2 * half.low};
}

constexpr std::uint64_t first_bits(double x) {
  return std::bit_cast<std::uint64_t>(x) >> (64 - kBitsOfMantissa);
}

inline constexpr std::uint64_t kFirstNearMantissas = first_bits(0x1.6a09e667f3bcdp-1);
inline constexpr auto kNearMantissas = [] {
  std::array<NearMantissas, 129> all;
  for (std::uint64_t i = 0; i < all.size(); ++i) {
    const auto bits = (kFirstNearMantissas + i) << (64 - kBitsOfMantissa);
    const auto least = std::bit_cast<double>(bits);
    const double middle = least * (least < 1 ? 1 + 0x1p-9 / least : 1 + 0x1p-8 / least);
    // The two entries beside 1 keep the factor 1: their mantissas are near 1 already.
    if (least == 1 || least == 1 - 0x1p-8) continue;
    all[i].factor = static_cast<int>(256 / middle + 0.5) / 256.0;
    const TwoPart logarithm = logarithm_by_series(all[i].factor);
    all[i].logarithm = {-logarithm.high, -logarithm.low};
  }
  return all;
}();

// ln((mantissa + low) · 2^exponent) for a `low` that is small beside the mantissa.
inline TwoPart logarithm_in_two_parts(Scaled x, double low = 0) {
  const auto& [factor, near] = kNearMantissas[first_bits(x.mantissa) - kFirstNearMantissas];
  const double upper = std::bit_cast<double>(std::bit_cast<std::uint64_t>(x.mantissa) >> 27 << 27);
  // The logarithm of 1 + r remains, |r| < 2^-6.9.
  TwoPart r = exact_sum(upper * factor - 1, (x.mantissa - upper) * factor);
  if (low != 0) r = exact_sum(r.high, r.low + low * factor);
  constexpr double kFactors[] = {-1.0 / 10, 1.0 / 9, -1.0 / 8, 1.0 / 7,
                                 -1.0 / 6,  1.0 / 5, -1.0 / 4, 1.0 / 3};
  const TwoPart square = exact_product(r.high, r.high);
  const double rest = r.high * square.high * polynomial(kFactors, r.high) - 0.5 * square.low +
                      (r.low - r.high * r.low);
  const auto exponent = static_cast<double>(x.exponent);
  const TwoPart known = exact_sum_of_ordered(exponent * kLn2High, near.high);
  const TwoPart linear = exact_sum_of_ordered(known.high, r.high);
  const TwoPart sum = exact_sum_of_ordered(linear.high, -0.5 * square.high);
  return exact_sum_of_ordered(
      sum.high, sum.low + (linear.low + (known.low + near.low) + (exponent * kLn2Low + rest)));
}

// ln x for a finite x > 0.
inline TwoPart logarithm_in_two_parts(double x) {
  const bool subnormal = x < std::numeric_limits<double>::min();
  Scaled scaled = scaled_near_1(subnormal ? x * 0x1p54 : x);
  scaled.exponent -= subnormal ? 54 : 0;
  return logarithm_in_two_parts(scaled);
}

// Returns `value` for a finite x above 0, else the limit or NaN that all logarithms share.
inline double logarithm_or_limit(double x, double value) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  value = x == 0 ? -kInfinite : value;
  value = x < 0 ? std::numeric_limits<double>::quiet_NaN() : value;
  return x < kInfinite ? value : x;
}

inline double logarithm(double x) {
  return logarithm_or_limit(x, logarithm_in_two_parts(x).rounded());
}

inline double decimal_logarithm(double x) {
  constexpr TwoPart kOneOverLn10{0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57};
  return logarithm_or_limit(x, (logarithm_in_two_parts(x) * kOneOverLn10).rounded());
}

// ln(1 + x).
inline double logarithm_of_1_plus(double x) {
  if (std::abs(x) < 0x1p-54) return x;
  const TwoPart sum = exact_sum(1, x);
  const Scaled scaled = scaled_near_1(sum.high);
  // For x of 2^60 or more, what the sum loses is too small to matter.
  const double low = x < 0x1p60 ? sum.low * (scaled.mantissa / sum.high) : 0;
  return logarithm_or_limit(sum.high, logarithm_in_two_parts(scaled, low).rounded());
}

}  // namespace ttrace::base
