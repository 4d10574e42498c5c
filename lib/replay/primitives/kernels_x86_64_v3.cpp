// The kernels for one instruction set.
#include "replay/primitives/kernels_source.h"

namespace ttrace::replay {

const Kernels kKernelsV3 = kernels_of<8, 4>();

}  // namespace ttrace::replay
