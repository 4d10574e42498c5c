// Casts of recorded tensors to a narrower type, such as FSDP2 makes of parameters that it keeps in
// binary32. If the trace holds the tensor that the run cast, the result of the cast is known to the
// bit: it is an input like any other, not a rounding that may have gone the other way.
#pragma once

#include <vector>

#include "measure/backend.h"
#include "specification/expression.h"
#include "specification/primitives/value.h"

namespace ttrace::specification {

// Makes casts of exact leaves part of the leaves: rounds those values, notes it in
// Leaf::rounded_to, and leaves the steps out. A leaf that is used without its cast as well, or with
// another one, stays as it is.
void take_casts_into_leaves(Expression& expression, std::vector<Value>& leaves,
                            const measure::ExecutionContext& context);

}  // namespace ttrace::specification
