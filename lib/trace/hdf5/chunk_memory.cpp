#include "trace/hdf5/chunk_memory.h"

namespace ttrace::trace::hdf5 {

ChunkMemory& chunk_memory() {
  static ChunkMemory memory;
  return memory;
}

}  // namespace ttrace::trace::hdf5
