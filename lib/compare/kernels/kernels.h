// The kernels that are compiled in; choose_kernel.h picks one that this machine can run.
#pragma once

#include "compare/kernels/kernel.h"

namespace ttrace::compare {

extern const Kernel kBaselineKernel;
extern const Kernel kX8664V3Kernel;  // only where the target is x86-64
extern const Kernel kX8664V4Kernel;

}  // namespace ttrace::compare
