// The kernels for one instruction set.
#include "replay/primitives/exponential_kernel.h"
#include "replay/primitives/kernels.h"

namespace ttrace::replay {

const Kernels kKernelsV3 = {add_all_exponentials};

}  // namespace ttrace::replay
