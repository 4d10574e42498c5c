// Extents of a tensor or shard, outermost dimension first. An empty shape is a 0-d tensor with one
// element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace ttrace::tensor {

using Shape = std::vector<std::uint64_t>;

inline constexpr std::size_t kMostDimensions = 32;  // HDF5's own limit

// Number of elements, or nothing if it overflows 64 bits.
std::optional<std::uint64_t> element_count(const Shape& shape);

// Size in bytes of a dense tensor, or nothing if it overflows 64 bits.
std::optional<std::uint64_t> byte_count(const Shape& shape, DType dtype);

// Row-major position of the element at `point` within an array of `shape`.
std::uint64_t position(const Shape& shape, const Shape& point);

// "[8, 32]", "[]".
std::string to_string(const Shape& shape);

// Axis-aligned hyper-rectangles in element coordinates: what a shard covers, what a read asks for.

// Covers [origin, origin + extent) in every dimension. origin and extent have the same length; a
// 0-d box has one element.
struct Box {
  Shape origin;
  Shape extent;

  bool operator==(const Box&) const = default;
};

Box whole(const Shape& shape);

// Number of elements; the box must lie within a tensor whose count fits 64 bits.
std::uint64_t volume(const Box& box);

bool empty(const Box& box);

// The common part, or nothing if there is none.
std::optional<Box> intersect(const Box& a, const Box& b);

// The smallest box around all of `boxes`, of which there is at least one.
Box hull(const std::vector<Box>& boxes);

// `box` in the coordinates of a frame whose origin is `origin`.
Box relative_to(const Box& box, const Shape& origin);

// `box` moved by `offset`.
Box shifted(const Box& box, const Shape& offset);

// Coordinates of the element with row-major position `linear` within `box`, in the frame of `box`.
Shape coordinates(const Box& box, std::uint64_t linear);

// Splits `box` into sub-boxes of at most `limit` elements (limit ≥ 1) that are contiguous in the
// row-major order of `box`, and visits them in that order. An empty box has none.
void for_each_sub_box(const Box& box, std::uint64_t limit,
                      const std::function<void(const Box&)>& visit);

// Copies the part that `from_box` and `to_box` share between two dense row-major buffers of
// `element_bytes`-wide elements. Boxes are in one common frame.
void copy_common(const Box& from_box, std::span<const std::byte> from, const Box& to_box,
                 std::span<std::byte> to, std::size_t element_bytes);

// "[0:4, 16:32]".
std::string to_string(const Box& box);

}  // namespace ttrace::tensor
