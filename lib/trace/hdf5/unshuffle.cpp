#include "trace/hdf5/unshuffle.h"

#include <algorithm>

namespace ttrace::trace::hdf5 {
namespace {

// With the width known the compiler interleaves whole vectors.
template <std::size_t kBytes>
void interleave(const std::byte* from, std::size_t count, std::byte* to) {
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t b = 0; b < kBytes; ++b) to[i * kBytes + b] = from[b * count + i];
  }
}

}  // namespace

void unshuffle(std::span<const std::byte> shuffled, std::size_t element_bytes,
               std::span<std::byte> out) {
  const std::size_t count = shuffled.size() / element_bytes;
  const std::byte* from = shuffled.data();
  std::byte* to = out.data();
  switch (element_bytes) {
    case 2:
      interleave<2>(from, count, to);
      break;
    case 4:
      interleave<4>(from, count, to);
      break;
    case 8:
      interleave<8>(from, count, to);
      break;
    default:
      for (std::size_t b = 0; b < element_bytes; ++b) {
        for (std::size_t i = 0; i < count; ++i) to[i * element_bytes + b] = from[b * count + i];
      }
  }
  const std::size_t whole = count * element_bytes;
  std::copy(shuffled.begin() + static_cast<std::ptrdiff_t>(whole), shuffled.end(),
            out.begin() + static_cast<std::ptrdiff_t>(whole));
}

}  // namespace ttrace::trace::hdf5
