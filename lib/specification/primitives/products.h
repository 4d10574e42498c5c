// Products of matrices, for the primitive and for probes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "measure/backend.h"
#include "measure/products.h"
#include "specification/primitives/primitive.h"
#include "specification/primitives/value.h"

namespace ttrace::specification {

// The attribute that says by which setting of a run (trace::ProductFacts) a device may round the
// arguments of a node before it multiplies them; null if the node has none.
const std::string* factors_of(const Attributes& attributes);
inline constexpr std::string_view kMatmulFactors = "matmul";
inline constexpr std::string_view kConvolutionFactors = "convolution";

using measure::kColumnsPerCall;
using measure::kRowsPerCall;
using measure::MatrixView;
using measure::multiply;

// The matrix of a value's last two dimensions at `batch`, a row-major index of the others.
MatrixView matrix_at(const Value& value, std::uint64_t batch);

// x [..., m, k] · y [..., k, n]; the leading dimensions broadcast to those of `shape`, which is the
// result's.
Value product_of(const Value& x, const Value& y, const tensor::Shape& shape,
                 const measure::ExecutionContext& context);

// The norms of a matrix's rows, for every matrix of the value: [..., m].
Value row_norms(const Value& value, const measure::ExecutionContext& context);
// The norms of its columns: [..., n].
Value column_norms(const Value& value, const measure::ExecutionContext& context);

}  // namespace ttrace::specification
