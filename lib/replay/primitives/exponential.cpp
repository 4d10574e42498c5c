#include "replay/primitives/exponential.h"

namespace ttrace::replay {
namespace {

ExponentialKernel fastest() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("avx512f")) return kExponentialsV4;
  if (__builtin_cpu_supports("avx2")) return kExponentialsV3;
#endif
  return kExponentialsBaseline;
}

}  // namespace

double add_exponentials(const double* x, double shift, double* out, std::uint64_t n) {
  static const ExponentialKernel kernel = fastest();
  return kernel(x, shift, out, n);
}

}  // namespace ttrace::replay
