// Shapes, boxes and ranges: the extents of a tensor, axis-aligned hyper-rectangles in it, and which
// indices of a dimension a rank has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace ttrace::tensor {

inline constexpr std::size_t kMostDimensions = 32;  // HDF5's own limit

// Number of elements, or nothing if it overflows 64 bits.
std::optional<std::uint64_t> element_count(const Shape& shape);

// Size in bytes of a dense tensor, or nothing if it overflows 64 bits.
std::optional<std::uint64_t> byte_count(const Shape& shape, DType dtype);

// Row-major index of the element at `point` in an array of `shape`.
std::uint64_t position(const Shape& shape, const Shape& point);

// "[8, 32]", "[]".
std::string to_string(const Shape& shape);

// The elements [origin, origin + extent) in every dimension. origin and extent have the same
// length; a 0-d box has one element.
struct Box {
  Shape origin;
  Shape extent;

  bool operator==(const Box&) const = default;
};

// The box of all elements.
Box whole(const Shape& shape);

// Number of elements. The box must lie in a tensor whose element count fits 64 bits.
std::uint64_t volume(const Box& box);

bool empty(const Box& box);

// The intersection, or nothing if it is empty.
std::optional<Box> intersect(const Box& a, const Box& b);

// The smallest box around all `boxes`. There must be at least one.
Box hull(const std::vector<Box>& boxes);

// `box` in coordinates relative to `origin`.
Box relative_to(const Box& box, const Shape& origin);

// `box` moved by `offset`.
Box shifted(const Box& box, const Shape& offset);

// The coordinates of the element of `box` with row-major index `linear`, in the coordinate system
// of `box`.
Shape coordinates(const Box& box, std::uint64_t linear);

// Splits `box` into boxes of at most `limit` elements (limit ≥ 1) that are contiguous in the
// row-major order of `box`, and visits them in that order. An empty box has none.
void for_each_sub_box(const Box& box, std::uint64_t limit,
                      const std::function<void(const Box&)>& visit);

// Copies the intersection of `from_box` and `to_box` from one dense row-major buffer to another.
// Both boxes are in the same coordinate system; elements have `element_bytes` bytes.
void copy_common(const Box& from_box, std::span<const std::byte> from, const Box& to_box,
                 std::span<std::byte> to, std::size_t element_bytes);

// "[0:4, 16:32]".
std::string to_string(const Box& box);

// A range of the indices of one dimension.
struct Range {
  std::uint64_t start = 0;
  std::uint64_t length = 0;

  bool operator==(const Range&) const = default;
};

// Ranges of global indices, one after the other in local order; none of them empty.
using Ranges = std::vector<Range>;

// The most ranges in one dimension of one rank. Only a damaged manifest has more, and they would
// take the memory of the machine.
inline constexpr std::size_t kMostRanges = std::size_t{1} << 20;

// Number of indices.
std::uint64_t total(const Ranges& ranges);

// Adds [start, start + length) at the end, joined to the last range where it goes on from it.
// Throws an input error beyond kMostRanges.
void append(Ranges& ranges, Range range);

// The indices of `held` at the local positions `positions`, which must lie within total(held).
Ranges select(const Ranges& held, const Ranges& positions);

}  // namespace ttrace::tensor
