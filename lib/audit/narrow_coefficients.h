// Outputs of a norm over the batch, α·(x - μ) + b, whose kernel kept the α and the μ of every
// channel in 16 bits: where α·μ is large, they are off by far more than their own rounding. The
// cause is confirmed by computing the output that way.
#pragma once

#include <optional>

#include "comparison/result.h"
#include "measure/tensor_reader.h"
#include "trace/manifest.h"
#include "trace/source.h"

namespace ttrace::audit {

// Returns the cause `narrow_coefficients` where `entry`, an output of [rows, channels, ...] in 16
// bits, is in every channel what some α and μ of its type make of the input of its module. Both are
// within two roundings of those of `expected`, and α·μ is rounded or not; at most a quarter of the
// distance from `expected` may be left. Nothing without that input, or where `expected` is no such
// norm of it. Throws an input error if a shard cannot be read.
std::optional<answer::Cause> find_narrow_coefficients(const trace::Source& run,
                                                      const trace::TensorEntry& entry,
                                                      const measure::TensorRef& expected);

}  // namespace ttrace::audit
