// Numbers as an element type would hold them.
#pragma once

#include "tensor/dtype.h"

namespace ttrace::tensor {

// `value` rounded to the nearest number of the floating-point type, ties to even, subnormals
// included (IEEE 754 and the OCP 8-bit formats). Beyond the largest number: infinite, and NaN in
// E4M3, which has no infinities. NaN and infinities stay (in E4M3 both are NaN). Throws an internal
// error for integers.
double round_to(DType dtype, double value);

}  // namespace ttrace::tensor
