#include "tensor/shape.h"

#include <algorithm>

#include "base/checked.h"

namespace ttrace::tensor {

std::optional<std::uint64_t> element_count(const Shape& shape) {
  // [2^40, 2^40, 0] has no elements, whatever the order of its extents.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::uint64_t count = 1;
  for (const std::uint64_t extent : shape) {
    const auto product = base::checked_mul(count, extent);
    if (!product) return std::nullopt;
    count = *product;
  }
  return count;
}

std::optional<std::uint64_t> byte_count(const Shape& shape, DType dtype) {
  const auto elements = element_count(shape);
  return elements ? base::checked_mul(*elements, element_bytes(dtype)) : std::nullopt;
}

std::uint64_t position(const Shape& shape, const Shape& point) {
  std::uint64_t linear = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) linear = linear * shape[d] + point[d];
  return linear;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

}  // namespace ttrace::tensor
