// e^x, of a number or of a vector of them.
#pragma once

#include <cstdint>
#include <cstring>

namespace ttrace::base {

// ln 2 in two parts: the first has so few bits that 1,100 times it is exact.
inline constexpr double kLn2High = 0x1.62e42feep-1;
inline constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
inline constexpr double kLog2OfE = 0x1.71547652b82fep0;
// Added to a number, it leaves the number's nearest integer in the last bits.
inline constexpr double kInLastBits = 0x1.8p52;

// e^(x + low), where `low` is small beside x. D: double, or a vector of doubles. L: 64-bit integers
// of the same number. Infinite and 0 beyond the range, also below the smallest normal number.
template <typename D, typename L>
inline __attribute__((always_inline)) D exponential_of(D x, D low = D{}) {
  const D most = D{} + 710;
  const D least = D{} - 746;
  low = x > most || x < least ? D{} : low;
  x = x > most ? most : x;
  x = x < least ? least : x;
  const D times = x * kLog2OfE + kInLastBits - kInLastBits;  // x = times · ln 2 + r
  const D r = (x - times * kLn2High) - (times * kLn2Low - low);
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
  const D half = times * 0.5 + kInLastBits;
  const D rest = times - (half - kInLastBits) + kInLastBits;
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

inline double exponential(double x) { return exponential_of<double, std::int64_t>(x); }

}  // namespace ttrace::base
