// The range of a file that holds the elements of a contiguous dataset, read without HDF5 and its
// lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tensor/box.h"

namespace ttrace::trace::range {

struct RawRange {
  int descriptor = -1;  // stays open as long as the dataset is
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;  // of the whole dataset; lies within the file

  // All of it; `out` has `bytes` bytes. Throws as read_box.
  void read_all(std::span<std::byte> out, const std::string& what) const;

  // Bits of `box` of an array of `shape` whose elements have `element_bytes` and lie in the range
  // in row-major order. Throws an input error naming `what` if the file has become shorter.
  void read_box(const tensor::Shape& shape, std::size_t element_bytes, const tensor::Box& box,
                std::span<std::byte> out, const std::string& what) const;
};

}  // namespace ttrace::trace::range
