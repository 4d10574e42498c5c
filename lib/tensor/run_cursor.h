// Walks a box inside a dense row-major frame as runs of contiguous elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor/box.h"

namespace ttrace::tensor {

class RunCursor {
 public:
  // `box` must lie within `frame`, both in the same coordinate system. Walks it in row-major order.
  RunCursor(const Box& box, const Box& frame);

  // Whether the whole box is one run.
  bool is_one_run() const { return one_run_; }
  // The offset of the next element in the frame's buffer, in elements.
  std::uint64_t offset() const { return offset_; }
  // The number of contiguous elements from offset() on; 0 at the end.
  std::uint64_t left_in_run() const { return left_in_run_; }
  // Advances by `count` ≤ left_in_run() elements.
  void skip(std::uint64_t count);

  // Copies the next `count` elements of `element_bytes` each, and advances. That many must be left.
  void gather(std::uint64_t count, const std::byte* frame_data, std::size_t element_bytes,
              std::byte* to);

 private:
  struct Dimension {
    std::uint64_t extent = 1;
    std::uint64_t stride = 0;
    std::uint64_t at = 0;
  };

  std::uint64_t gather_rows(std::uint64_t most, const std::byte* frame_data,
                            std::size_t element_bytes, std::byte* to);

  std::vector<Dimension> outer_;  // dimensions that a run does not cover, innermost last
  std::uint64_t run_ = 1;
  std::uint64_t offset_ = 0;
  std::uint64_t left_in_run_ = 0;
  bool one_run_ = true;
};

}  // namespace ttrace::tensor
