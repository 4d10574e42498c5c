#include "base/functions/trigonometric.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "base/functions/two_part.h"

namespace ttrace::base {
namespace {

__extension__ using Product = unsigned __int128;

// x = quadrant · π/2 + rest, where |rest| <= π/4.
struct Angle {
  unsigned quadrant = 0;
  TwoPart rest;
};

// 64 zeros and the binary digits of 2/π.
constexpr std::array<std::uint64_t, 20> kTwoOverPi{
    0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041,
    0xfe5163abdebbc561, 0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e,
    0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b,
    0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab};

// 64 digits from the given one on.
std::uint64_t digits_of_two_over_pi(std::uint64_t first) {
  const std::uint64_t word = first / 64;
  const std::uint64_t shift = first % 64;
  if (shift == 0) return kTwoOverPi[word];
  return kTwoOverPi[word] << shift | kTwoOverPi[word + 1] >> (64 - shift);
}

// M. Payne and R. Hanek, Radian reduction for trigonometric functions (1983), in whole numbers. x ·
// 2/π is integer · 2^exponent · 2/π. Digits of 2/π that add a multiple of 4 are skipped; the next
// 192 give 190 digits behind the point, of which a rest near 0 cancels at most 62.
Angle reduce(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t integer = (bits & 0xfffffffffffff) | 0x10000000000000;
  const std::uint64_t first = (bits >> 52) - 1075 + 62;  // the exponent is at least -53
  const Product low = Product{integer} * digits_of_two_over_pi(first + 128);
  const Product middle =
      Product{integer} * digits_of_two_over_pi(first + 64) + static_cast<std::uint64_t>(low >> 64);
  const std::uint64_t high =
      integer * digits_of_two_over_pi(first) + static_cast<std::uint64_t>(middle >> 64);
  const auto next = static_cast<std::uint64_t>(middle);
  // The digits behind the point, as a number from -1/2 to 1/2.
  const auto fraction = static_cast<std::int64_t>(high << 2 | next >> 62);
  const std::uint64_t fraction_below = next << 2 | static_cast<std::uint64_t>(low) >> 62;
  const TwoPart upper = exact_sum_of_ordered(static_cast<double>(fraction >> 32) * 0x1p-32,
                                             static_cast<double>(fraction & 0xffffffff) * 0x1p-64);
  const TwoPart quarters =
      exact_sum(upper.high, upper.low + static_cast<double>(fraction_below) * 0x1p-128);
  constexpr TwoPart kHalfPi{0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54};
  return {static_cast<unsigned>((high >> 62) + (fraction < 0 ? 1 : 0)), quarters * kHalfPi};
}

double sine_near_0(TwoPart x) {
  constexpr double kFactors[] = {
      1.0 / 355687428096000, -1.0 / 1307674368000, 1.0 / 6227020800, -1.0 / 39916800,
      1.0 / 362880,          -1.0 / 5040,          1.0 / 120,        -1.0 / 6};
  const double square = x.high * x.high;
  return x.high + (x.low * (1 - 0.5 * square) + x.high * square * polynomial(kFactors, square));
}

double cosine_near_0(TwoPart x) {
  constexpr double kFactors[] = {
      1.0 / 20922789888000, -1.0 / 87178291200, 1.0 / 479001600, -1.0 / 3628800,
      1.0 / 40320,          -1.0 / 720,         1.0 / 24};
  const double square = x.high * x.high;
  const TwoPart first = exact_sum_of_ordered(1, -0.5 * square);
  return first.high +
         (first.low + (square * square * polynomial(kFactors, square) - x.high * x.low));
}

constexpr double kQuarterPi = 0x1.921fb54442d18p-1;

}  // namespace

double sine(double x) {
  const double size = std::abs(x);
  if (size < 0x1p-27) return x;
  if (!std::isfinite(x)) return x - x;
  const Angle angle = size < kQuarterPi ? Angle{0, {size, 0}} : reduce(size);
  const double value =
      angle.quadrant % 2 == 0 ? sine_near_0(angle.rest) : cosine_near_0(angle.rest);
  return (angle.quadrant % 4 >= 2) != std::signbit(x) ? -value : value;
}

double cosine(double x) {
  const double size = std::abs(x);
  if (!std::isfinite(x)) return x - x;
  const Angle angle = size < kQuarterPi ? Angle{0, {size, 0}} : reduce(size);
  const double value =
      angle.quadrant % 2 == 0 ? cosine_near_0(angle.rest) : sine_near_0(angle.rest);
  return angle.quadrant % 4 == 1 || angle.quadrant % 4 == 2 ? -value : value;
}

}  // namespace ttrace::base
