#include "replay/primitives/exponential_kernel.h"

namespace ttrace::replay {

const ExponentialKernel kExponentialsV4 = add_all_exponentials;

}  // namespace ttrace::replay
