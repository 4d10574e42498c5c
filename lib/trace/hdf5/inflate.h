// One zlib stream, as HDF5's deflate filter writes it, into a buffer of known size.
#pragma once

#include <cstddef>
#include <span>

namespace ttrace::trace::hdf5 {

// Whether `stored` is one whole zlib stream of exactly out.size() bytes, which are then in `out`;
// more are never written, whatever the stream says. Thread-safe.
bool inflate_exactly(std::span<const std::byte> stored, std::span<std::byte> out);

// "libdeflate" or "zlib", which is about half as fast.
const char* inflate_library();

}  // namespace ttrace::trace::hdf5
