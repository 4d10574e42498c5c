// Gradients of biases and norms that a kernel added up in 16 bits although they are stored in 32:
// wrong by far more than a rounding. The cause is confirmed by adding them up that way.
#pragma once

#include <optional>

#include "comparison/result.h"
#include "measure/backend.h"
#include "measure/tensor_reader.h"
#include "trace/manifest.h"
#include "trace/source.h"

namespace ttrace::audit {

// Returns the cause `narrow_accumulator` where `entry`, a raw gradient of one dimension, is what
// the run's own output gradient and input of its module make of it if the sum over their rows is
// rounded to their type after every row, by one thread or several: this must leave at most a
// quarter of the distance from `expected`. Nothing without these tensors, or if they were made in
// another way. Throws an input error if a shard cannot be read.
std::optional<answer::Cause> find_narrow_sum(const trace::Source& run,
                                             const trace::TensorEntry& entry,
                                             const measure::TensorRef& expected,
                                             const measure::Backend& backend);

}  // namespace ttrace::audit
