#include "specification/primitives/exponential.h"

#include "base/instruction_sets.h"

namespace ttrace::specification {
namespace {

ExponentialKernel fastest() {
#ifdef __x86_64__
  if (base::instruction_sets().v4) return kExponentialsV4;
  if (base::instruction_sets().v3) return kExponentialsV3;
#endif
  return kExponentialsBaseline;
}

}  // namespace

double add_exponentials(const double* x, double shift, double* out, std::uint64_t n) {
  static const ExponentialKernel kernel = fastest();
  return kernel(x, shift, out, n);
}

}  // namespace ttrace::specification
