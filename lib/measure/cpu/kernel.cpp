#include "measure/cpu/kernel.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "base/error.h"

namespace ttrace::measure {
namespace {

// Exactly the features that the kernels' objects are compiled with (CMakeLists.txt).
#ifdef __x86_64__
// clang 16 does not know the name of this feature.
bool has_f16c() {
  unsigned int eax = 0;
  unsigned int ebx = 0;
  unsigned int ecx = 0;
  unsigned int edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

bool has_v3() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && has_f16c() && __builtin_cpu_supports("fma");
}

bool has_v4() {
  return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}
#endif

std::vector<const Kernel*> detected() {
  std::vector<const Kernel*> kernels;
#ifdef __x86_64__
  if (has_v4()) kernels.push_back(&kX8664V4Kernel);
  if (has_v3()) kernels.push_back(&kX8664V3Kernel);
#endif
  kernels.push_back(&kBaselineKernel);
  return kernels;
}

}  // namespace

const std::vector<const Kernel*>& usable_kernels() {
  static const std::vector<const Kernel*> kernels = detected();
  return kernels;
}

Stored stored_as(tensor::DType dtype) {
  switch (dtype) {
    case tensor::DType::kFloat64:
      return Stored::kF64;
    case tensor::DType::kFloat32:
      return Stored::kF32;
    case tensor::DType::kFloat16:
      return Stored::kF16;
    case tensor::DType::kBFloat16:
      return Stored::kBF16;
    case tensor::DType::kFloat8E4M3:
      return Stored::kF8E4M3;
    case tensor::DType::kFloat8E5M2:
      return Stored::kF8E5M2;
    default:
      throw base::internal_error(tensor::dtype_name(dtype), " is not a floating-point type");
  }
}

}  // namespace ttrace::measure
