#include "measure/cpu/pair.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "measure/cpu/tiles.h"

namespace ttrace::measure {
namespace {

// Whether the stored values can be compared as they are.
bool alike(const StoredValues& a, const StoredValues& b) {
  return a.dtype == b.dtype && a.scale == 1 && b.scale == 1;
}

// Both sides of a box, tile by tile: gathered where they do not lie one after the other, and
// decoded where they are not stored alike.
class BoxTiles {
 public:
  BoxTiles(const InputBox& reference, const InputBox& candidate, const tensor::Box& box)
      : stored_(alike(reference.values, candidate.values)),
        dtype_(stored_ ? reference.values.dtype : tensor::DType::kFloat64),
        box_(box),
        r_(reference, box),
        c_(candidate, box) {}

  // Adds the tile of `count` elements that begins at `first`, after the tiles that were added.
  void add(const Kernel& kernel, std::uint64_t first, std::size_t count, TileStats& into) {
    r_.skip(first - at_);
    c_.skip(first - at_);
    at_ = first + count;
    if (stored_) {
      add_tile(kernel, dtype_, r_.next(count), c_.next(count), count, box_, first, into);
    } else {
      add_tile(kernel, dtype_, r_.next_numbers(count), c_.next_numbers(count), count, box_, first,
               into);
    }
  }

 private:
  bool stored_;
  tensor::DType dtype_;
  const tensor::Box& box_;
  TileCursor r_;
  TileCursor c_;
  std::uint64_t at_ = 0;
};

// Calls visit(first, count) for every tile of a box.
template <typename Visit>
void for_each_tile(const tensor::Box& box, Visit visit) {
  const std::uint64_t count = tensor::volume(box);
  for (std::uint64_t first = 0; first < count; first += kTileElements) {
    visit(first, static_cast<std::size_t>(std::min<std::uint64_t>(kTileElements, count - first)));
  }
}

// Adds tiles without gathering and decoding them, except those that are looked at element by
// element.
void add_placed(const Kernel& kernel, const InputBox& reference, const InputBox& candidate,
                const tensor::Box& box, PlacedCursor& r, PlacedCursor& c, TileStats& into) {
  const StoredType type = stored_as(reference.values.dtype);
  const bool same_places = reference.box == candidate.box;
  std::unique_ptr<BoxTiles> gathered;  // an optional would zero all of its memory
  for_each_tile(box, [&](std::uint64_t first, std::size_t count) {
    const PlacedValues of_r = r.next(count);
    const PlacedValues of_c = same_places ? r.here(candidate.values) : c.next(count);
    TileSums sums;
    kernel.sum_placed(type, of_r, of_c, count, sums);
    const double largest = into.largest ? into.largest->difference : 0.0;
    if (std::isfinite(sums.r2) && std::isfinite(sums.c2) && sums.largest <= largest) {
      into.elements += count;
      into.finite += count;
      return add_sums(sums, into);
    }
    if (!gathered) gathered = std::make_unique<BoxTiles>(reference, candidate, box);
    gathered->add(kernel, first, count, into);
  });
}

void add_box(const Kernel& kernel, const InputBox& reference, const InputBox& candidate,
             const tensor::Box& box, TileStats& into) {
  if (reference.values.dtype == candidate.values.dtype) {
    PlacedCursor r(reference, box);
    PlacedCursor c(candidate, box);
    const bool plain = r.is_plain() && c.is_plain();
    if (!plain && r.fits() && c.fits()) {
      return add_placed(kernel, reference, candidate, box, r, c, into);
    }
  }
  BoxTiles tiles(reference, candidate, box);
  for_each_tile(
      box, [&](std::uint64_t first, std::size_t count) { tiles.add(kernel, first, count, into); });
}

// In binary64 a difference of one beyond 2^53 is lost, so integers are subtracted in 128 bits.
__extension__ using Wide = __int128;

Wide wide(std::int64_t value, bool is_u64) {
  return is_u64 ? static_cast<Wide>(static_cast<std::uint64_t>(value)) : static_cast<Wide>(value);
}

// Integers of one side, tile by tile.
class IntegerTiles {
 public:
  IntegerTiles(const InputBox& input, const tensor::Box& box)
      : is_u64_(input.values.dtype == tensor::DType::kUInt64), cursor_(input, box) {}

  void next(std::size_t count) {
    std::memcpy(bits_.data(), cursor_.next(count), count * sizeof(std::int64_t));
    for (std::size_t i = 0; i < count; ++i) {
      numbers_[i] = is_u64_ ? static_cast<double>(static_cast<std::uint64_t>(bits_[i]))
                            : static_cast<double>(bits_[i]);
    }
  }
  // Compares the first `count` elements of the tile.
  bool equals(const IntegerTiles& other, std::size_t count) const {
    return is_u64_ == other.is_u64_ &&
           std::memcmp(bits_.data(), other.bits_.data(), count * sizeof(std::int64_t)) == 0;
  }
  Wide at(std::size_t i) const { return wide(bits_[i], is_u64_); }
  const std::byte* numbers() const { return std::as_bytes(std::span(numbers_)).data(); }

 private:
  bool is_u64_;
  TileCursor cursor_;
  std::array<std::int64_t, kTileElements> bits_;
  TileNumbers numbers_;
};

void add_integers(const Kernel& kernel, const PairRequest& request) {
  IntegerTiles r(request.reference, request.box);
  IntegerTiles c(request.candidate, request.box);
  TileStats stats;
  std::uint64_t unequal = 0;
  Wide largest = 0;
  std::optional<Extreme> extreme;
  const std::uint64_t count = tensor::volume(request.box);
  for (std::uint64_t first = 0; first < count; first += kTileElements) {
    const auto here =
        static_cast<std::size_t>(std::min<std::uint64_t>(kTileElements, count - first));
    r.next(here);
    c.next(here);
    add_tile(kernel, tensor::DType::kFloat64, r.numbers(), c.numbers(), here, request.box, first,
             stats);
    if (r.equals(c, here)) continue;
    for (std::size_t i = 0; i < here; ++i) {
      const Wide d = c.at(i) - r.at(i);
      if (d == 0) continue;
      ++unequal;
      const Wide size = d < 0 ? -d : d;
      if (size <= largest) continue;
      largest = size;
      extreme = Extreme{static_cast<double>(size), static_cast<double>(r.at(i)),
                        static_cast<double>(c.at(i)), tensor::coordinates(request.box, first + i)};
    }
  }
  stats.unequal = unequal;
  if (unequal > 0) stats.largest = extreme;
  request.stats->merge(stats);
}

}  // namespace

void compute(const Kernel& kernel, const PairRequest& request) {
  if (!tensor::is_floating(request.reference.values.dtype)) return add_integers(kernel, request);
  TileStats& into = *request.stats;
  if (request.grid == nullptr) {
    return add_box(kernel, request.reference, request.candidate, request.box, into);
  }
  request.grid->for_each_part(request.box, [&](std::size_t cell, const tensor::Box& part) {
    TileStats stats;
    // Only tiles that beat the largest so far are searched for their place: searching in every cell
    // would decode most tiles a second time.
    stats.largest = std::exchange(into.largest, std::nullopt);
    add_box(kernel, request.reference, request.candidate, part, stats);
    request.cells[cell].add(stats);
    into.largest = std::exchange(stats.largest, std::nullopt);
    into.merge(stats);
  });
}

void compute(const Kernel& kernel, const NoiseRequest& request) {
  for (std::size_t run = 0; run < request.runs.size(); ++run) {
    NoiseSums& sums = request.sums[run];
    std::optional<Extreme> largest;
    if (sums.largest > 0) largest = Extreme{sums.largest, 0, 0, {}};
    request.grid->for_each_part(request.box, [&](std::size_t cell, const tensor::Box& part) {
      TileStats stats;
      stats.largest = std::exchange(largest, std::nullopt);
      add_box(kernel, request.reference, request.runs[run], part, stats);
      sums.cells[cell].add(stats);
      largest = std::move(stats.largest);
    });
    if (largest) sums.largest = largest->difference;
  }
}

namespace {

bool any_different(std::span<const double> a, std::span<const double> b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i]))) return true;
  }
  return false;
}

double distance(const StoredValues& first, const StoredValues& other) {
  const std::size_t count = first.bits.size() / tensor::element_bytes(first.dtype);
  TileNumbers a;
  TileNumbers b;
  double squares = 0;
  bool different = false;
  for (std::size_t at = 0; at < count; at += kTileElements) {
    const std::size_t here = std::min(kTileElements, count - at);
    const std::span<const double> x = numbers(first, at, here, a);
    const std::span<const double> y = numbers(other, at, here, b);
    squares = add_squared_distance(x, y, squares);
    different = different || any_different(x, y);
  }
  // Large integers that differ may decode to the same number.
  if (!tensor::is_floating(first.dtype)) return std::max(squares, 1.0);
  const bool underflowed = squares == 0 && different;
  return underflowed ? std::numeric_limits<double>::denorm_min() : squares;
}

}  // namespace

void compute(const ReplicasRequest& request) {
  for (std::size_t i = 0; i < request.others.size(); ++i) {
    const StoredValues other{request.others[i], request.first.dtype, request.first.scale};
    request.squared_distances[i] = distance(request.first, other);
  }
}

}  // namespace ttrace::measure
