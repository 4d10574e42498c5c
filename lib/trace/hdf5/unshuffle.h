// HDF5's shuffle filter, undone.
#pragma once

#include <cstddef>
#include <span>

namespace ttrace::trace::hdf5 {

// `shuffled` holds the first bytes of all elements, then the second bytes, and so on; `out`, of the
// same size and apart from it, gets them element by element. A rest that is no whole element is
// kept as it is, as HDF5 does.
void unshuffle(std::span<const std::byte> shuffled, std::size_t element_bytes,
               std::span<std::byte> out);

}  // namespace ttrace::trace::hdf5
