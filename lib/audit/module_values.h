// The tensors of one module in one micro-batch, as numbers: causes recompute results from them.
#pragma once

#include <string>
#include <vector>

#include "measure/tensor_reader.h"
#include "trace/manifest.h"

namespace ttrace::audit {

// The value of `kind` of the module's only call in the micro-batch of `key`; null if there is none,
// or several.
const trace::TensorEntry* only_value_of(const trace::Manifest& manifest,
                                        const trace::TensorKey& key, trace::Kind kind,
                                        const std::string& module);

// All elements of the whole tensor, in row-major order. Throws an input error if a shard cannot be
// read.
std::vector<double> values_of(const measure::TensorRef& tensor);

// ‖a - b‖, of vectors of equal length; NaN where one has a NaN.
double distance(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace ttrace::audit
