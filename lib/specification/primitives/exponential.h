// e^x with the same bits on every machine, of a number or of a vector of them.
#pragma once

#include <cstdint>
#include <cstring>

namespace ttrace::specification {

// D: double, or a vector of doubles. L: 64-bit integers of the same number. At most 2 units in the
// last place off; infinite and 0 beyond the range, also below the smallest normal number.
template <typename D, typename L>
inline __attribute__((always_inline)) D exponential_of(D x) {
  constexpr double kInteger = 0x1.8p52;  // added to a number, leaves its integer in the last bits
  constexpr double kHigh = 0x1.62e42feep-1;  // ln 2, so that 1,100 times it is exact
  constexpr double kLow = 0x1.a39ef35793c76p-33;
  const D most = D{} + 710;
  const D least = D{} - 746;
  x = x > most ? most : x;
  x = x < least ? least : x;
  const D times = x * 0x1.71547652b82fep0 + kInteger - kInteger;  // x = times · ln 2 + r
  const D r = (x - times * kHigh) - times * kLow;
  constexpr double kFactors[] = {1.0 / 6227020800,
                                 1.0 / 479001600,
                                 1.0 / 39916800,
                                 1.0 / 3628800,
                                 1.0 / 362880,
                                 1.0 / 40320,
                                 1.0 / 5040,
                                 1.0 / 720,
                                 1.0 / 120,
                                 1.0 / 24,
                                 1.0 / 6,
                                 0.5,
                                 1.0,
                                 1.0};
  D sum = D{} + kFactors[0];
  for (int i = 1; i < 14; ++i) sum = sum * r + kFactors[i];
  // 2^times in two factors: one alone would overflow, or lose bits, before the sum does.
  const D half = times * 0.5 + kInteger;
  const D rest = times - (half - kInteger) + kInteger;
  L first;
  L second;
  static_assert(sizeof(D) == sizeof(L));
  std::memcpy(&first, &half, sizeof first);
  std::memcpy(&second, &rest, sizeof second);
  first = (first + 1023) << 52;
  second = (second + 1023) << 52;
  D first_power;
  D second_power;
  std::memcpy(&first_power, &first, sizeof first);
  std::memcpy(&second_power, &second, sizeof second);
  return sum * first_power * second_power;
}

// Returns Σ e^(x[i] - shift), in eight sums that are added in order. Stores the terms in `out`,
// which may be x, or null.
double add_exponentials(const double* x, double shift, double* out, std::uint64_t n);

// The same for one instruction set; add_exponentials() takes the best one of the machine.
using ExponentialKernel = double (*)(const double* x, double shift, double* out, std::uint64_t n);
extern const ExponentialKernel kExponentialsBaseline;
extern const ExponentialKernel kExponentialsV3;  // of x86-64 alone, as the next
extern const ExponentialKernel kExponentialsV4;

}  // namespace ttrace::specification
