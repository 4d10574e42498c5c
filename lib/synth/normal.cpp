#include "synth/normal.h"

#include <bit>
#include <cstddef>

#include "synth/normal_table.h"

namespace ttrace::synth {

float uniform(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-23F - 1.0F; }

std::int32_t normal_units(std::uint32_t word) {
  // The top bit is the sign; `tail` is the probability, in units of 2^-33, of lying further out.
  const std::uint32_t tail = (word << 1) | 1;
  const int leading = std::countl_zero(tail);
  const std::uint32_t mantissa = tail << leading;
  const auto octave = static_cast<std::size_t>(31 - leading);
  const std::size_t entry = 8 * octave + ((mantissa >> 28) & 7);
  const std::int64_t between = mantissa & 0x0FFFFFFF;
  const std::int64_t drop = kQuantiles[entry] - kQuantiles[entry + 1];
  const auto units = static_cast<std::int32_t>(kQuantiles[entry] - ((drop * between) >> 28));
  return (word >> 31) != 0 ? -units : units;
}

float normal(std::uint32_t word, double mean, double std_dev) {
  return static_cast<float>(mean + std_dev * (normal_units(word) * 0x1p-28));
}

}  // namespace ttrace::synth
