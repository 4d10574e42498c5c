#include "compare/box_stats.h"

#include <algorithm>
#include <array>

#include "compare/add_tile.h"
#include "tensor/run_cursor.h"

namespace ttrace::compare {
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

}  // namespace ttrace::compare
