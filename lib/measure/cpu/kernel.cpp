#include "measure/cpu/kernel.h"

#include "base/error.h"
#include "base/instruction_sets.h"

namespace ttrace::measure {
namespace {

std::vector<const Kernel*> detected() {
  std::vector<const Kernel*> kernels;
#ifdef __x86_64__
  // v4 and v3 are exactly the features that CMakeLists.txt compiles these kernels with.
  if (base::machine_instruction_sets().v4) kernels.push_back(&kX8664V4Kernel);
  if (base::machine_instruction_sets().v3) kernels.push_back(&kX8664V3Kernel);
#endif
  kernels.push_back(&kBaselineKernel);
  return kernels;
}

}  // namespace

const std::vector<const Kernel*>& usable_kernels() {
  static const std::vector<const Kernel*> kernels = detected();
  return kernels;
}

const Kernel& kernel_in_use() {
#ifdef __x86_64__
  if (base::instruction_sets().v4) return kX8664V4Kernel;
  if (base::instruction_sets().v3) return kX8664V3Kernel;
#endif
  return kBaselineKernel;
}

StoredType stored_as(tensor::DType dtype) {
  switch (dtype) {
    case tensor::DType::kFloat64:
      return StoredType::kF64;
    case tensor::DType::kFloat32:
      return StoredType::kF32;
    case tensor::DType::kFloat16:
      return StoredType::kF16;
    case tensor::DType::kBFloat16:
      return StoredType::kBF16;
    case tensor::DType::kFloat8E4M3:
      return StoredType::kF8E4M3;
    case tensor::DType::kFloat8E5M2:
      return StoredType::kF8E5M2;
    default:
      throw base::internal_error(tensor::dtype_name(dtype), " is not a floating-point type");
  }
}

}  // namespace ttrace::measure
