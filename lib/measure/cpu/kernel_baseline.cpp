#include "measure/cpu/kernel.h"
#include "measure/cpu/kernel_source.h"

namespace ttrace::measure {

#if defined(__x86_64__)
const Kernel kBaselineKernel{"x86-64", sum_any};
#elif defined(__aarch64__)
const Kernel kBaselineKernel{"aarch64", sum_any};
#else
const Kernel kBaselineKernel{"generic", sum_any};
#endif

}  // namespace ttrace::measure
