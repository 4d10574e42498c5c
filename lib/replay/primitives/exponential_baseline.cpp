#include "replay/primitives/exponential_kernel.h"

namespace ttrace::replay {

const ExponentialKernel kExponentialsBaseline = add_all_exponentials;

}  // namespace ttrace::replay
