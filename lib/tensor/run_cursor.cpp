#include "tensor/run_cursor.h"

#include <algorithm>
#include <cstring>

namespace ttrace::tensor {

RunCursor::RunCursor(const Box& box, const Box& frame) {
  std::uint64_t stride = 1;
  bool contiguous = true;  // the box fills all dimensions so far, so the next one extends the run
  for (std::size_t d = box.extent.size(); d-- > 0;) {
    offset_ += (box.origin[d] - frame.origin[d]) * stride;
    if (contiguous) {
      run_ *= box.extent[d];
      contiguous = box.extent[d] == frame.extent[d];
    } else if (box.extent[d] != 1) {
      add_outer({box.extent[d], stride, 0});
    }
    stride *= frame.extent[d];
  }
  one_run_ = outer_count_ == 0;
  left_in_run_ = empty(box) ? 0 : run_;
}

void RunCursor::add_outer(const Dimension& dimension) {
  if (outer_count_ < kFew) {
    few_[outer_count_] = dimension;
  } else {
    if (many_.empty()) many_.assign(few_.begin(), few_.end());
    many_.push_back(dimension);
  }
  ++outer_count_;
}

void RunCursor::skip(std::uint64_t count) {
  offset_ += count;
  left_in_run_ -= count;
  if (left_in_run_ > 0) return;
  offset_ -= run_;
  for (Dimension& dimension : outer()) {
    offset_ += dimension.stride;
    if (++dimension.at < dimension.extent) {
      left_in_run_ = run_;
      return;
    }
    offset_ -= dimension.extent * dimension.stride;
    dimension.at = 0;
  }
}

void RunCursor::advance(std::uint64_t count) {
  while (count > 0) {
    const std::uint64_t here = std::min(count, left_in_run_);
    skip(here);
    count -= here;
  }
}

void RunCursor::place(std::uint64_t count, std::uint64_t together, std::size_t element_bytes,
                      std::size_t* offsets) {
  while (count > 0) {
    const std::uint64_t here = std::min(count, left_in_run_);
    for (std::uint64_t i = 0; i < here; i += together) *offsets++ = (offset_ + i) * element_bytes;
    skip(here);
    count -= here;
  }
}

// Copies up to `most` ≥ 1 whole runs along the innermost outer dimension, and returns how
// many. For short runs, finding the next one costs as much as copying it.
std::uint64_t RunCursor::gather_rows(std::uint64_t most, const std::byte* frame_data,
                                     std::size_t element_bytes, std::byte* to) {
  Dimension& rows = outer().front();
  const std::uint64_t count = std::min(most, rows.extent - rows.at);
  const std::byte* from = frame_data + offset_ * element_bytes;
  const std::size_t bytes = run_ * element_bytes;
  for (std::uint64_t row = 0; row < count; ++row) {
    std::memcpy(to + row * bytes, from, bytes);
    from += rows.stride * element_bytes;
  }
  rows.at += count - 1;
  offset_ += (count - 1) * rows.stride;
  skip(run_);
  return count;
}

void RunCursor::gather(std::uint64_t count, const std::byte* frame_data, std::size_t element_bytes,
                       std::byte* to) {
  while (count > 0) {
    const std::uint64_t here = std::min(count, left_in_run_);
    if (here == run_ && !one_run_) {
      const std::uint64_t rows = gather_rows(count / run_, frame_data, element_bytes, to);
      to += rows * run_ * element_bytes;
      count -= rows * run_;
      continue;
    }
    std::memcpy(to, frame_data + offset_ * element_bytes, here * element_bytes);
    to += here * element_bytes;
    count -= here;
    skip(here);
  }
}

}  // namespace ttrace::tensor
