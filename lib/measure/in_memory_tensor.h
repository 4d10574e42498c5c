// A logical tensor that is read once and kept in memory, to be measured many times.
#pragma once

#include "measure/tensor_reader.h"

namespace ttrace::measure {

// Reads all of `tensor`, into at most 16 bytes of memory per element, and returns a reference to
// the same tensor that reads from memory. Values, boxes of ranks, places and replica checks are
// those that `tensor` gives with `replicas`, whatever the result is opened with. `exact`: keeps
// integers instead of numbers. Throws an input error if a shard cannot be read. The readers share
// the memory and belong to one thread.
TensorRef keep_in_memory(const TensorRef& tensor, Replicas replicas, bool exact);

}  // namespace ttrace::measure
