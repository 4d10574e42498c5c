#include "measure/box_stats.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "measure/cpu/add_tile.h"
#include "tensor/run_cursor.h"

namespace ttrace::measure {
namespace {

bool same_nonfinite(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (std::isinf(a) && a == b);
}

}  // namespace

TileStats slab_stats(const tensor::Box& box, std::span<const double> reference,
                     std::span<const double> candidate) {
  TileStats total;
  for (std::size_t start = 0; start < reference.size(); start += kTileElements) {
    const std::size_t count = std::min(kTileElements, reference.size() - start);
    add_tile(tensor::DType::kFloat64, std::as_bytes(reference.subspan(start)).data(),
             std::as_bytes(candidate.subspan(start)).data(), count, box, start, total);
  }
  return total;
}

double squared_distance(std::span<const double> a, std::span<const double> b) {
  double total = 0;
  for (std::size_t start = 0; start < a.size(); start += kTileElements) {
    const std::size_t count = std::min(kTileElements, a.size() - start);
    const double* x = a.data() + start;
    const double* y = b.data() + start;
    if (all_finite(x, count) && all_finite(y, count)) {
      total += sum_distance(x, y, count).d2;
      continue;
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (std::isfinite(x[i]) && std::isfinite(y[i])) {
        total += (x[i] - y[i]) * (x[i] - y[i]);
      } else if (!same_nonfinite(x[i], y[i])) {
        return std::numeric_limits<double>::infinity();
      }
    }
  }
  return total;
}

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

std::vector<std::vector<double>> squared_errors_by_index(const TensorRef& reference,
                                                         const TensorRef& candidate) {
  const tensor::Shape& shape = reference.view->shape;
  std::vector<std::vector<double>> errors;
  for (const std::uint64_t extent : shape) errors.emplace_back(extent, 0.0);
  const auto of_reference = reference.open(Replicas::kFirstOnly);
  const auto of_candidate = candidate.open(Replicas::kFirstOnly);
  std::vector<double> r;
  std::vector<double> c;
  tensor::for_each_sub_box(tensor::whole(shape), kBandElements, [&](const tensor::Box& slab) {
    r.resize(tensor::volume(slab));
    c.resize(r.size());
    of_reference->read(slab, r);
    of_candidate->read(slab, c);
    tensor::Shape at = slab.origin;
    for (std::size_t i = 0; i < r.size(); ++i) {
      const double square = (c[i] - r[i]) * (c[i] - r[i]);
      if (square > 0 && std::isfinite(square)) {
        for (std::size_t d = 0; d < at.size(); ++d) errors[d][at[d]] += square;
      }
      for (std::size_t d = at.size(); d-- > 0;) {
        if (++at[d] < slab.origin[d] + slab.extent[d]) break;
        at[d] = slab.origin[d];
      }
    }
  });
  return errors;
}

namespace {

constexpr std::size_t kLargestElement = sizeof(double);

// One side of the box, tile by tile; where its elements do not lie one after the other they are
// brought together.
class Tiles {
 public:
  Tiles(const std::byte* data, std::size_t element_bytes, const tensor::Box& box,
        const tensor::Box& frame)
      : data_(data), element_bytes_(element_bytes), cursor_(box, frame) {}

  const std::byte* next(std::size_t count) {
    if (cursor_.is_one_run()) {
      const std::byte* here = data_ + cursor_.offset() * element_bytes_;
      cursor_.skip(count);
      return here;
    }
    cursor_.gather(count, data_, element_bytes_, gathered_.data());
    return gathered_.data();
  }

 private:
  const std::byte* data_;
  std::size_t element_bytes_;
  tensor::RunCursor cursor_;
  std::array<std::byte, kTileElements * kLargestElement> gathered_;
};

bool alike(const std::optional<StoredValues>& a, const std::optional<StoredValues>& b) {
  return a && b && a->dtype == b->dtype && a->scale == 1 && b->scale == 1;
}

const std::byte* bytes_of(std::span<const double> numbers) { return std::as_bytes(numbers).data(); }

}  // namespace

void add_box(BoxValues& reference, BoxValues& candidate, const tensor::Box& box, TileStats& into) {
  const bool stored = alike(reference.stored(), candidate.stored());
  const tensor::DType dtype = stored ? reference.stored()->dtype : tensor::DType::kFloat64;
  const std::size_t width = tensor::element_bytes(dtype);
  Tiles r(stored ? reference.stored()->bits.data() : bytes_of(reference.numbers()), width, box,
          reference.box());
  Tiles c(stored ? candidate.stored()->bits.data() : bytes_of(candidate.numbers()), width, box,
          candidate.box());
  const std::uint64_t count = tensor::volume(box);
  for (std::uint64_t first = 0; first < count; first += kTileElements) {
    const auto here =
        static_cast<std::size_t>(std::min<std::uint64_t>(kTileElements, count - first));
    add_tile(dtype, r.next(here), c.next(here), here, box, first, into);
  }
}

}  // namespace ttrace::measure
