#include "measure/cpu/tiles.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tensor/codec.h"

namespace ttrace::measure {
namespace {

bool are_numbers(const StoredValues& values) {
  return values.dtype == tensor::DType::kFloat64 && values.scale == 1;
}

bool is_aligned(const std::byte* at) {
  return reinterpret_cast<std::uintptr_t>(at) % alignof(double) == 0;
}

}  // namespace

void decode(const StoredValues& values, std::uint64_t first, std::span<double> out) {
  const std::size_t width = tensor::element_bytes(values.dtype);
  tensor::decode_floats(values.dtype, values.bits.subspan(first * width, out.size() * width), out);
  if (values.scale == 1) return;
  for (double& value : out) value *= values.scale;
}

std::span<const double> numbers(const StoredValues& values, std::uint64_t first, std::size_t count,
                                std::span<double> scratch) {
  const std::byte* at = values.bits.data() + first * tensor::element_bytes(values.dtype);
  if (are_numbers(values) && is_aligned(at)) return {reinterpret_cast<const double*>(at), count};
  const std::span<double> out = scratch.first(count);
  decode(values, first, out);
  return out;
}

TileCursor::TileCursor(const InputBox& input, const tensor::Box& box)
    : values_(input.values),
      element_bytes_(tensor::element_bytes(input.values.dtype)),
      cursor_(box, input.box) {}

const std::byte* TileCursor::next(std::size_t count) {
  if (cursor_.is_one_run()) {
    const std::byte* here = values_.bits.data() + cursor_.offset() * element_bytes_;
    cursor_.skip(count);
    return here;
  }
  cursor_.gather(count, values_.bits.data(), element_bytes_, gathered_.data());
  return gathered_.data();
}

const std::byte* TileCursor::next_numbers(std::size_t count) {
  const std::byte* stored = next(count);
  if (are_numbers(values_)) return stored;
  const std::span<double> out(numbers_.data(), count);
  decode({{stored, count * element_bytes_}, values_.dtype, values_.scale}, 0, out);
  return std::as_bytes(out).data();
}

PlacedCursor::PlacedCursor(const InputBox& input, const tensor::Box& box)
    : values_(input.values),
      element_bytes_(tensor::element_bytes(input.values.dtype)),
      cursor_(box, input.box) {}

PlacedValues PlacedCursor::next(std::size_t count) {
  cursor_.place(count, kPlacedTogether, element_bytes_, offsets_.data());
  return {values_.bits.data(), offsets_.data(), values_.scale};
}

namespace {

bool same_nonfinite(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (std::isinf(a) && a == b);
}

std::span<double> decoded(tensor::DType dtype, const std::byte* stored, std::size_t count,
                          TileNumbers& values) {
  const std::span<double> out(values.data(), count);
  tensor::decode_floats(dtype, {stored, count * tensor::element_bytes(dtype)}, out);
  return out;
}

// Classifies every pair with a non-finite value and sets it to zero, so that it adds nothing to any
// sum.
void take_out_nonfinite(std::span<double> reference, std::span<double> candidate,
                        const tensor::Box& box, std::uint64_t first, TileStats& stats) {
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double r = reference[i];
    const double c = candidate[i];
    if (std::isfinite(r) && std::isfinite(c)) continue;
    reference[i] = 0;
    candidate[i] = 0;
    --stats.finite;
    stats.nonfinite_reference += std::isfinite(r) ? 0 : 1;
    stats.nonfinite_candidate += std::isfinite(c) ? 0 : 1;
    if (same_nonfinite(r, c)) {
      ++stats.nonfinite_equal;
      continue;
    }
    ++stats.nonfinite_different;
    ++stats.unequal;
    if (!stats.first_nonfinite_difference) {
      stats.first_nonfinite_difference = tensor::coordinates(box, first + i);
    }
  }
}

Extreme find_largest(std::span<const double> reference, std::span<const double> candidate,
                     double largest, const tensor::Box& box, std::uint64_t first) {
  std::size_t at = 0;
  while (std::abs(candidate[at] - reference[at]) != largest) ++at;
  return {largest, reference[at], candidate[at], tensor::coordinates(box, first + at)};
}

}  // namespace

void add_sums(const TileSums& sums, TileStats& into) {
  into.sum_d2 += sums.d2;
  into.sum_d += sums.d;
  into.sum_r2 += sums.r2;
  into.sum_c2 += sums.c2;
  into.sum_rc += sums.rc;
  into.unequal += sums.unequal;
}

void add_tile(const Kernel& kernel, tensor::DType dtype, const std::byte* reference,
              const std::byte* candidate, std::size_t count, const tensor::Box& box,
              std::uint64_t first, TileStats& into) {
  TileNumbers r;
  TileNumbers c;
  TileSums sums;
  kernel.sum(stored_as(dtype), reference, candidate, count, sums);
  into.elements += count;
  into.finite += count;
  const bool cleaned = !std::isfinite(sums.r2) || !std::isfinite(sums.c2);
  if (cleaned) {
    take_out_nonfinite(decoded(dtype, reference, count, r), decoded(dtype, candidate, count, c),
                       box, first, into);
    kernel.sum(StoredType::kF64, r.data(), c.data(), count, sums);
  }
  add_sums(sums, into);
  if (sums.largest <= (into.largest ? into.largest->difference : 0.0)) return;
  if (!cleaned) {
    decoded(dtype, reference, count, r);
    decoded(dtype, candidate, count, c);
  }
  into.largest = find_largest({r.data(), count}, {c.data(), count}, sums.largest, box, first);
}

void add_numbers(const Kernel& kernel, std::span<const double> reference,
                 std::span<const double> candidate, const tensor::Box& box, std::uint64_t first,
                 TileStats& into) {
  add_tile(kernel, tensor::DType::kFloat64, std::as_bytes(reference).data(),
           std::as_bytes(candidate).data(), reference.size(), box, first, into);
}

double add_lanes(Lanes& lanes) {
  for (std::size_t width = kLanes / 2; width > 0; width /= 2) {
    for (std::size_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

bool all_finite(const double* values, std::size_t count) {
  // x·0 is 0 for finite x and NaN otherwise; unlike a test per element this vectorises.
  Lanes zeros{};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) zeros[lane] += values[i + lane] * 0.0;
  }
  for (std::size_t lane = 0; i < count; ++i, ++lane) zeros[lane] += values[i] * 0.0;
  return add_lanes(zeros) == 0.0;
}

double sum_squared_distance(const double* a, const double* b, std::size_t count) {
  Lanes lanes{};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double difference = a[i + lane] - b[i + lane];
      lanes[lane] += difference * difference;
    }
  }
  for (std::size_t lane = 0; i < count; ++i, ++lane) lanes[lane] += (a[i] - b[i]) * (a[i] - b[i]);
  return add_lanes(lanes);
}

double add_squared_distance(std::span<const double> a, std::span<const double> b, double squares) {
  if (all_finite(a.data(), a.size()) && all_finite(b.data(), b.size())) {
    return squares + sum_squared_distance(a.data(), b.data(), a.size());
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(a[i]) && std::isfinite(b[i])) {
      squares += (a[i] - b[i]) * (a[i] - b[i]);
    } else if (!same_nonfinite(a[i], b[i])) {
      return std::numeric_limits<double>::infinity();
    }
  }
  return squares;
}

}  // namespace ttrace::measure
