// Walks a part of a dense row-major box as runs of elements that lie one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor/box.h"

namespace ttrace::tensor {

class RunCursor {
 public:
  // `part` must lie within `frame`, both in one coordinate system; it is walked in its own
  // row-major order.
  RunCursor(const Box& part, const Box& frame);

  // Whether the part is one run, from `offset()` on.
  bool is_one_run() const { return one_run_; }
  // Of the next element, in elements from the start of the frame's buffer.
  std::uint64_t offset() const { return offset_; }
  // How many elements from `offset()` on lie one after the other; 0 at the end.
  std::uint64_t left_in_run() const { return left_in_run_; }
  // Goes on by `count` ≤ left_in_run() elements.
  void skip(std::uint64_t count);

  // Copies the next `count` elements of `element_bytes` each; as many must be left.
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

  std::vector<Dimension> outer_;  // innermost last; those that a run does not cover
  std::uint64_t run_ = 1;
  std::uint64_t offset_ = 0;
  std::uint64_t left_in_run_ = 0;
  bool one_run_ = true;
};

}  // namespace ttrace::tensor
