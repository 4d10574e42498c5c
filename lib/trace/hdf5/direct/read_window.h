// Small reads, served from what the thread has read ahead.
//
// A million small tensors are two million headers and as many pieces of some bytes, which lie side
// by side in their file. A call of the kernel for each took longer than all arithmetic on them. So
// every thread keeps windows on the files that it reads from, and one call fills a window with many
// headers or pieces. A file has several: HDF5 puts headers in other blocks than elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "trace/hdf5/library/checked_driver.h"

namespace ttrace::trace::hdf5 {

// Larger reads cost more than the call, and are made as they are.
inline constexpr std::size_t kLargestWindowRead = std::size_t{1} << 13;

// The windows of one thread: their size, and how many there are.
inline constexpr std::size_t kMostWindowBytes = std::size_t{1} << 16;
inline constexpr std::size_t kMostWindows = 16;

// Up to when nobody may have written the file for its bytes to count.
enum class Unwritten {
  kNow,
  // When the window was filled: for headers, whose elements are read and checked later. Asking the
  // kernel takes as long as everything else that a header in a window needs.
  kWhenFilled,
};

// Reads out.size() bytes from `offset` on, which lie within `file.end`, and returns true if the
// file has not been written since it was opened, so that they are the file's bytes. Returns false
// where it has, where it cannot be read and for large reads: the caller then reads without a
// window, and finds out what is wrong.
bool read_in_window(const OpenFile& file, std::uint64_t offset, std::span<std::byte> out,
                    Unwritten unwritten = Unwritten::kNow);

}  // namespace ttrace::trace::hdf5
