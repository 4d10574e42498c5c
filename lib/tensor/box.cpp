#include "tensor/box.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/error.h"
#include "tensor/run_cursor.h"

namespace ttrace::tensor {

std::optional<std::uint64_t> element_count(const Shape& shape) {
  // [2^40, 2^40, 0] has no elements, in any order of its extents.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::uint64_t count = 1;
  for (const std::uint64_t extent : shape) {
    const auto product = base::checked_mul(count, extent);
    if (!product) return std::nullopt;
    count = *product;
  }
  return count;
}

std::optional<std::uint64_t> byte_count(const Shape& shape, DType dtype) {
  const auto elements = element_count(shape);
  return elements ? base::checked_mul(*elements, element_bytes(dtype)) : std::nullopt;
}

std::uint64_t position(const Shape& shape, const Shape& point) {
  std::uint64_t linear = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) linear = linear * shape[d] + point[d];
  return linear;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

Box whole(const Shape& shape) { return {Shape(shape.size(), 0), shape}; }

std::uint64_t volume(const Box& box) {
  const auto count = element_count(box.extent);
  if (!count) throw base::internal_error("box ", to_string(box), " overflows");
  return *count;
}

bool empty(const Box& box) {
  return std::find(box.extent.begin(), box.extent.end(), 0) != box.extent.end();
}

std::optional<Box> intersect(const Box& a, const Box& b) {
  Box common;
  for (std::size_t d = 0; d < a.extent.size(); ++d) {
    const std::uint64_t start = std::max(a.origin[d], b.origin[d]);
    const std::uint64_t stop = std::min(a.origin[d] + a.extent[d], b.origin[d] + b.extent[d]);
    if (stop <= start) return std::nullopt;
    common.origin.push_back(start);
    common.extent.push_back(stop - start);
  }
  return common;
}

Box hull(const std::vector<Box>& boxes) {
  Box around = boxes.at(0);
  for (const Box& box : boxes) {
    for (std::size_t d = 0; d < box.extent.size(); ++d) {
      const std::uint64_t stop =
          std::max(around.origin[d] + around.extent[d], box.origin[d] + box.extent[d]);
      around.origin[d] = std::min(around.origin[d], box.origin[d]);
      around.extent[d] = stop - around.origin[d];
    }
  }
  return around;
}

Box relative_to(const Box& box, const Shape& origin) {
  Box moved = box;
  for (std::size_t d = 0; d < origin.size(); ++d) moved.origin[d] -= origin[d];
  return moved;
}

Box shifted(const Box& box, const Shape& offset) {
  Box moved = box;
  for (std::size_t d = 0; d < offset.size(); ++d) moved.origin[d] += offset[d];
  return moved;
}

Shape coordinates(const Box& box, std::uint64_t linear) {
  Shape point = box.origin;
  for (std::size_t d = box.extent.size(); d-- > 0;) {
    point[d] += linear % box.extent[d];
    linear /= box.extent[d];
  }
  return point;
}

void for_each_sub_box(const Box& box, std::uint64_t limit,
                      const std::function<void(const Box&)>& visit) {
  if (limit == 0) throw base::internal_error("boxes of no elements");
  if (empty(box)) return;
  if (volume(box) <= limit) return visit(box);
  // Cut the outermost dimension with more than one index. If even a single index of it is too
  // large, each is split recursively.
  const std::size_t d = static_cast<std::size_t>(
      std::find_if(box.extent.begin(), box.extent.end(), [](auto e) { return e > 1; }) -
      box.extent.begin());
  const std::uint64_t inner = volume(box) / box.extent[d];
  const std::uint64_t step = std::max<std::uint64_t>(1, limit / inner);
  for (std::uint64_t start = 0; start < box.extent[d]; start += step) {
    Box sub_box = box;
    sub_box.origin[d] += start;
    sub_box.extent[d] = std::min(step, box.extent[d] - start);
    for_each_sub_box(sub_box, limit, visit);
  }
}

void copy_common(const Box& from_box, std::span<const std::byte> from, const Box& to_box,
                 std::span<std::byte> to, std::size_t element_bytes) {
  const auto common = intersect(from_box, to_box);
  if (!common) return;
  RunCursor source(*common, from_box);
  RunCursor target(*common, to_box);
  while (target.left_in_run() > 0) {
    const std::uint64_t count = target.left_in_run();
    source.gather(count, from.data(), element_bytes, to.data() + target.offset() * element_bytes);
    target.skip(count);
  }
}

std::string to_string(const Box& box) {
  std::string text = "[";
  for (std::size_t d = 0; d < box.extent.size(); ++d) {
    if (d > 0) text += ", ";
    text += std::to_string(box.origin[d]) + ":" + std::to_string(box.origin[d] + box.extent[d]);
  }
  return text + "]";
}

std::uint64_t total(const Ranges& ranges) {
  std::uint64_t sum = 0;
  for (const Range& range : ranges) sum += range.length;
  return sum;
}

void append(Ranges& ranges, Range range) {
  if (range.length == 0) return;
  if (!ranges.empty() && ranges.back().start + ranges.back().length == range.start) {
    ranges.back().length += range.length;
    return;
  }
  if (ranges.size() == kMostRanges) {
    throw base::input_error("a rank would hold more than ", kMostRanges,
                            " separate ranges of one dimension");
  }
  ranges.push_back(range);
}

Ranges select(const Ranges& held, const Ranges& positions) {
  if (held.size() == 1) {
    Ranges moved = positions;
    for (Range& range : moved) range.start += held[0].start;
    return moved;
  }
  std::vector<std::uint64_t> starts;  // local position of every held range
  starts.reserve(held.size());
  std::uint64_t at = 0;
  for (const Range& range : held) {
    starts.push_back(at);
    at += range.length;
  }
  Ranges chosen;
  for (const Range& wanted : positions) {
    const std::uint64_t stop = wanted.start + wanted.length;
    auto i = static_cast<std::size_t>(std::upper_bound(starts.begin(), starts.end(), wanted.start) -
                                      starts.begin() - 1);
    for (; i < held.size() && starts[i] < stop; ++i) {
      const std::uint64_t from = std::max(starts[i], wanted.start);
      const std::uint64_t to = std::min(starts[i] + held[i].length, stop);
      append(chosen, {held[i].start + (from - starts[i]), to - from});
    }
  }
  return chosen;
}

}  // namespace ttrace::tensor
