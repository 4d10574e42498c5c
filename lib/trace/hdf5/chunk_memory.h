// What all open datasets together may keep of their inflated chunks: a run of many replicas has
// many open at the same time.
#pragma once

#include <atomic>
#include <cstdint>

namespace ttrace::trace::hdf5 {

struct ChunkMemory {
  std::atomic<std::uint64_t> most{std::uint64_t{1} << 30};
  std::atomic<std::uint64_t> kept{0};
};

// The process's own.
ChunkMemory& chunk_memory();

}  // namespace ttrace::trace::hdf5
