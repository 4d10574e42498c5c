#include "measure/flat_reader.h"

#include <cstring>
#include <vector>

namespace ttrace::measure {
namespace {

// Reading what lies between the rows of a box as well costs less than a read of each row, up to
// here.
constexpr std::uint64_t kWorthwhileSurplus = 4;
constexpr std::uint64_t kSmallRead = std::uint64_t{1} << 20;

// The box with the dimensions that are contiguous in the array made one: rows of it follow each
// other at larger distances.
tensor::Box row_starts(const tensor::Box& box, const tensor::Shape& shape, std::uint64_t& row) {
  tensor::Box rows = box;
  row = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    row *= box.extent[d];
    rows.extent[d] = 1;
    if (box.extent[d] != shape[d]) break;
  }
  return rows;
}

}  // namespace

std::uint64_t read_flat_box(const trace::Dataset& dataset, const tensor::Shape& shape,
                            const tensor::Range& range, const tensor::Box& box,
                            std::span<std::byte> out) {
  if (out.empty()) return 0;
  const std::size_t width = tensor::element_bytes(dataset.facts().dtype);
  const auto read = [&](std::uint64_t start, std::uint64_t length, std::span<std::byte> to) {
    dataset.read({{start - range.start}, {length}}, to);
    return length * width;
  };
  std::uint64_t row = 1;
  const tensor::Box rows = row_starts(box, shape, row);
  const std::uint64_t count = tensor::volume(rows);
  const std::uint64_t first = tensor::position(shape, box.origin);
  if (count == 1) return read(first, row, out);

  const std::uint64_t last = tensor::position(shape, tensor::coordinates(rows, count - 1)) + row;
  const std::uint64_t span = last - first;
  if (span * width <= kSmallRead || span / kWorthwhileSurplus <= row * count) {
    std::vector<std::byte> all(span * width);
    const std::uint64_t bytes = read(first, span, all);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t at = tensor::position(shape, tensor::coordinates(rows, i)) - first;
      std::memcpy(out.data() + i * row * width, all.data() + at * width, row * width);
    }
    return bytes;
  }
  std::uint64_t bytes = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    bytes += read(tensor::position(shape, tensor::coordinates(rows, i)), row,
                  out.subspan(i * row * width, row * width));
  }
  return bytes;
}

}  // namespace ttrace::measure
