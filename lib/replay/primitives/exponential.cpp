#include "replay/primitives/exponential.h"

namespace ttrace::replay {
namespace {

using Kernel = double (*)(const double* x, double shift, double* out, std::uint64_t n);

Kernel fastest() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("avx512f")) {
    return add_exponentials_x86_64_v4;
  }
  if (__builtin_cpu_supports("avx2")) return add_exponentials_x86_64_v3;
#endif
  return add_exponentials_baseline;
}

}  // namespace

double add_exponentials(const double* x, double shift, double* out, std::uint64_t n) {
  static const Kernel kernel = fastest();
  return kernel(x, shift, out, n);
}

}  // namespace ttrace::replay
