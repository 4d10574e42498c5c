// A logical tensor read once and kept in memory, to be measured many times.
#pragma once

#include "measure/measure.h"
#include "measure/tensor_reader.h"

namespace ttrace::measure {

// Reads all of `tensor` (16 bytes of memory or fewer for each of its elements) and returns a
// reference to the same tensor that reads from memory: values, regions, places and what its
// replicas looked like are those that `tensor` gives with `replicas`, whatever it is opened with.
// `exact`: its integers are kept, else its numbers. Throws an input error if a shard cannot be
// read. The readers share what is kept, and are for one thread.
TensorRef hold(const TensorRef& tensor, Replicas replicas, bool exact);

}  // namespace ttrace::measure
