#include "replay/primitives/kernels.h"

#include "replay/primitives/exponential.h"

namespace ttrace::replay {

const Kernels& fastest_kernels() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("avx512f")) return kKernelsV4;
  if (__builtin_cpu_supports("avx2")) return kKernelsV3;
#endif
  return kKernelsBaseline;
}

double add_exponentials(const double* x, double shift, double* out, std::uint64_t n) {
  static const ExponentialKernel kernel = fastest_kernels().add_exponentials;
  return kernel(x, shift, out, n);
}

}  // namespace ttrace::replay
