#include "specification/primitives/exponential.h"

#include "base/instruction_sets.h"

namespace ttrace::specification {
namespace {

ExponentialKernel fastest() {
#ifdef __x86_64__
  const base::InstructionSets& machine = base::instruction_sets();
  if (machine.avx2 && machine.avx512f) return kExponentialsV4;
  if (machine.avx2) return kExponentialsV3;
#endif
  return kExponentialsBaseline;
}

}  // namespace

double add_exponentials(const double* x, double shift, double* out, std::uint64_t n) {
  static const ExponentialKernel kernel = fastest();
  return kernel(x, shift, out, n);
}

}  // namespace ttrace::specification
