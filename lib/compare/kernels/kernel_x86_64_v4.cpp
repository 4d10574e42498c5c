#include "compare/kernels/kernel_source.h"
#include "compare/kernels/kernels.h"

namespace ttrace::compare {

const Kernel kX8664V4Kernel{"x86-64-v4", sum_any};

}  // namespace ttrace::compare
