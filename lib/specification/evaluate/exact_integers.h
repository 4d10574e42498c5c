// Whole numbers are computed in doubles.
#pragma once

#include "specification/primitives/value.h"
#include "tensor/dtype.h"

namespace ttrace::specification {

// Throws where elements of an integer type are beyond 2^53, from where a double does not hold every
// whole number, or beyond their type, where a program goes on from its other end: a hash does both.
// Does nothing for other types.
void require_exact_integers(const Value& value, tensor::DType dtype);

}  // namespace ttrace::specification
