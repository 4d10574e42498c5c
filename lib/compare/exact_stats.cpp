#include "compare/exact_stats.h"

#include <optional>

#include "compare/slab_stats.h"

namespace ttrace::compare {
namespace {

void to_floats(const std::vector<std::int64_t>& integers, bool u64, std::vector<double>& out) {
  out.resize(integers.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = u64 ? static_cast<double>(static_cast<std::uint64_t>(integers[i]))
                 : static_cast<double>(integers[i]);
  }
}

// Equality of decoded integers: a uint64 above 2^63 has the bits of a negative int64.
std::uint64_t count_unequal(std::span<const std::int64_t> reference, bool reference_is_u64,
                            std::span<const std::int64_t> candidate, bool candidate_is_u64) {
  std::uint64_t unequal = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const bool same =
        reference[i] == candidate[i] && (reference[i] >= 0 || reference_is_u64 == candidate_is_u64);
    unequal += same ? 0 : 1;
  }
  return unequal;
}

// As a number of more bits than either has.
__extension__ using Wide = __int128;

Wide wide(std::int64_t value, bool is_u64) {
  return is_u64 ? static_cast<Wide>(static_cast<std::uint64_t>(value)) : static_cast<Wide>(value);
}

// The numbers' own largest difference, and not that of what they round to: beyond 2^53 a difference
// of one rounds to none, and its place would be lost.
std::optional<Extreme> find_largest(std::span<const std::int64_t> reference, bool reference_is_u64,
                                    std::span<const std::int64_t> candidate, bool candidate_is_u64,
                                    const tensor::Box& box) {
  Wide largest = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const Wide d = wide(candidate[i], candidate_is_u64) - wide(reference[i], reference_is_u64);
    const Wide size = d < 0 ? -d : d;
    if (size <= largest) continue;
    largest = size;
    at = i;
  }
  if (largest == 0) return std::nullopt;
  return Extreme{
      static_cast<double>(largest), static_cast<double>(wide(reference[at], reference_is_u64)),
      static_cast<double>(wide(candidate[at], candidate_is_u64)), tensor::coordinates(box, at)};
}

}  // namespace

void ExactBand::read(TensorReader& reference, const tensor::Box& band) {
  band_ = band;
  band_values_.resize(tensor::volume(band));
  reference.read_integers(band, band_values_);
}

void ExactBand::add(TensorReader& candidate, const tensor::Box& piece, TileStats& into) {
  reference_.resize(tensor::volume(piece));
  candidate_.resize(reference_.size());
  tensor::copy_common(band_, std::as_bytes(std::span(band_values_)), piece,
                      std::as_writable_bytes(std::span(reference_)), sizeof(std::int64_t));
  candidate.read_integers(piece, candidate_);
  to_floats(reference_, reference_is_u64_, reference_numbers_);
  to_floats(candidate_, candidate_is_u64_, candidate_numbers_);
  TileStats stats = slab_stats(piece, reference_numbers_, candidate_numbers_);
  stats.unequal = count_unequal(reference_, reference_is_u64_, candidate_, candidate_is_u64_);
  // Equal numbers, the rule, are seen by their sums.
  if (stats.unequal > 0) {
    stats.largest =
        find_largest(reference_, reference_is_u64_, candidate_, candidate_is_u64_, piece);
  }
  into.merge(stats);
}

}  // namespace ttrace::compare
