// The rounding that an expression gets where a run rounds and its formula does not say so.
#pragma once

#include "specification/primitives/primitive.h"

namespace ttrace::specification {

// The primitive that rounds to the node's type and does nothing else.
const Primitive& rounding_primitive();

}  // namespace ttrace::specification
