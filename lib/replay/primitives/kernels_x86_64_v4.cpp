// The kernels for one instruction set.
#include "replay/primitives/kernels_source.h"

namespace ttrace::replay {

const Kernels kKernelsV4 = kernels_of<16, 8>();

}  // namespace ttrace::replay
