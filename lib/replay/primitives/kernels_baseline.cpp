// The kernels for one instruction set.
#include "replay/primitives/kernels_source.h"

namespace ttrace::replay {

const Kernels kKernelsBaseline = kernels_of<8, 2>();

}  // namespace ttrace::replay
