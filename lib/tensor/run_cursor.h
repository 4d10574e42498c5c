// Walks a box inside a dense row-major frame as runs of contiguous elements.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
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
  // Advances by `count` elements of any runs. That many must be left.
  void advance(std::uint64_t count);

  // Whether the runs can be cut into groups of `together` elements. Only in a box of one run may
  // the last group be smaller.
  bool has_groups_of(std::uint64_t together) const { return one_run_ || run_ % together == 0; }
  // Writes where each group of the next `count` elements begins, in bytes from the beginning of the
  // frame, and advances. That many must be left, and all before them must have been whole groups.
  void place(std::uint64_t count, std::uint64_t together, std::size_t element_bytes,
             std::size_t* offsets);

  // Copies the next `count` elements of `element_bytes` each, and advances. That many must be left.
  void gather(std::uint64_t count, const std::byte* frame_data, std::size_t element_bytes,
              std::byte* to);

 private:
  struct Dimension {
    std::uint64_t extent;
    std::uint64_t stride;
    std::uint64_t at;
  };
  // Cells of a grid have a few hundred elements: allocating would take as long as adding them up.
  static constexpr std::size_t kFew = 3;

  void add_outer(const Dimension& dimension);
  // Dimensions that a run does not cover, innermost first.
  std::span<Dimension> outer() {
    return many_.empty() ? std::span(few_).first(outer_count_) : std::span(many_);
  }

  std::uint64_t gather_rows(std::uint64_t most, const std::byte* frame_data,
                            std::size_t element_bytes, std::byte* to);

  std::array<Dimension, kFew> few_;  // the outer dimensions, unless they are more
  std::vector<Dimension> many_;
  std::size_t outer_count_ = 0;
  std::uint64_t run_ = 1;
  std::uint64_t offset_ = 0;
  std::uint64_t left_in_run_ = 0;
  bool one_run_ = true;
};

}  // namespace ttrace::tensor
