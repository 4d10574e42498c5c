// The elements of a tensor by their size. A bound is a share of a norm, so that a mask of -1e9 in a
// row would hide every error of the scores beside it; elements are therefore also held against
// those of about their own size.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "specification/primitives/value.h"
#include "tensor/dtype.h"

namespace ttrace::specification {

// Band b has the elements that are 2^(8b) to 2^(8b + 8) times smaller than the largest of their
// row, the last one all that are smaller still, and zeros.
inline constexpr std::size_t kBands = 32;
inline constexpr unsigned kOctavesOfBand = 8;

// Sums over the elements of one band, C, E and E' as in RowSums.
struct Band {
  std::uint64_t elements = 0;
  double error = 0;          // Σ (C - E)²
  double expected = 0;       // Σ E²
  double spread = 0;         // Σ (E' - E)², the mean over draws
  double spread_fourth = 0;  // Σ (E' - E)⁴, the mean over draws
};

using Bands = std::array<Band, kBands>;

void add(const Bands& more, Bands& bands);

// The biased binary exponent; 0 of 0.
inline unsigned exponent_of(double value) {
  return static_cast<unsigned>(std::bit_cast<std::uint64_t>(value) >> 52U) & 0x7FFU;
}

// The band of an element by its exponent and the largest of its row.
inline std::uint8_t band_of(unsigned exponent, unsigned largest) {
  const unsigned band = (largest - exponent) / kOctavesOfBand;
  return static_cast<std::uint8_t>(band < kBands ? band : kBands - 1);
}

// Whether many elements are much smaller than the largest of their row: an eighth or more of those
// that are not 0 is not in band 0. What is not finite does not count.
bool has_small_elements(const Value& value);

// The smallest positive number of full precision. Below it arithmetic may flush to zero.
double smallest_normal(tensor::DType dtype);

}  // namespace ttrace::specification
