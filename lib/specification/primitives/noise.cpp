#include "specification/primitives/noise.h"

#include <algorithm>
#include <cmath>

#include "base/functions.h"

namespace ttrace::specification {

Noise Noise::stream(std::uint64_t number) const {
  std::uint64_t bits = seed_ ^ ((number + 1) * 0xD6E8FEB86659FD93ULL);
  bits = (bits ^ (bits >> 32U)) * 0xD6E8FEB86659FD93ULL;
  bits = (bits ^ (bits >> 32U)) * 0xD6E8FEB86659FD93ULL;
  return Noise(bits ^ (bits >> 32U));
}

double sum_roundoff(tensor::DType dtype, double norms, std::uint64_t n, double roundings) {
  const double parts = roundings * unit_roundoff(dtype) * norms /
                       std::sqrt(static_cast<double>(std::max<std::uint64_t>(n, 1)));
  const double accumulator = kAccumulation * accumulation_roundoff(dtype) * norms;
  return base::hypotenuse(parts, accumulator);
}

double coherent_roundoff(tensor::DType dtype, std::uint64_t n) {
  return accumulation_roundoff(dtype) * std::sqrt(static_cast<double>(n) / 3);
}

double kept_in_sum(tensor::DType dtype) { return dtype == tensor::DType::kBFloat16 ? 0x1p-126 : 0; }

double StepwiseSum::lost() const {
  const double independent = unit_roundoff(dtype_) * std::sqrt(squares_);
  if (dtype_ != tensor::DType::kFloat32) return independent;
  // ξ has the variance 1/3, so that √3·lost·ξ has lost².
  const double lost = std::abs(static_cast<double>(single_) - exact_);
  return lost > independent ? std::sqrt(3.0) * lost : independent;
}

double unit_roundoff(tensor::DType dtype) {
  if (dtype == tensor::DType::kFloat8E4M3) return 0x1p-4;
  if (dtype == tensor::DType::kFloat8E5M2) return 0x1p-3;
  return tensor::epsilon(dtype) / 2;
}

double accumulation_roundoff(tensor::DType dtype) {
  return std::min(unit_roundoff(dtype), 0x1p-24);
}

}  // namespace ttrace::specification
