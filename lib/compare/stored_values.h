// Elements as a shard has them: the bits, and what makes numbers of them.
#pragma once

#include <cstddef>
#include <span>

#include "tensor/dtype.h"

namespace ttrace::compare {

struct StoredValues {
  std::span<const std::byte> bits;
  tensor::DType dtype = tensor::DType::kFloat32;
  double scale = 1;  // logical value = stored value × scale
};

// `out`: as many numbers as there are elements.
void decode(const StoredValues& values, std::span<double> out);

}  // namespace ttrace::compare
