// Whole numbers are computed in doubles.
#pragma once

#include "specification/primitives/value.h"
#include "tensor/dtype.h"

namespace ttrace::specification {

// Throws an input error if elements of an integer type are beyond 2^53, where doubles do not hold
// every whole number, or beyond their type, where a program wraps around: a hash does both. Does
// nothing for other types.
void require_exact_integers(const Value& value, tensor::DType dtype);

}  // namespace ttrace::specification
