#include "measure/cpu/kernel.h"
#include "measure/cpu/kernel_source.h"

namespace ttrace::measure {

const Kernel kX8664V3Kernel{"x86-64-v3", sum_any};

}  // namespace ttrace::measure
