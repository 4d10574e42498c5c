// Which instruction set the sums run on. The answer never depends on it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compare/kernels/kernel.h"
#include "tensor/dtype.h"

namespace ttrace::compare {

// The kernels that this build has and this machine can run, the fastest first; never empty.
const std::vector<const Kernel*>& usable_kernels();

// The fastest usable one, or what was chosen.
const Kernel& kernel();
// Throws a usage error that names the usable ones if `isa` is none of them. Call it before threads
// start.
void choose_kernel(std::string_view isa);

// How a kernel reads a floating-point type.
Stored stored_as(tensor::DType dtype);

}  // namespace ttrace::compare
