#include "tensor/shape.h"

#include <limits>

namespace ttrace::tensor {

std::size_t Shape::checked(std::size_t i) const {
  if (i >= size_) throw std::out_of_range("dimension beyond the last of a shape");
  return i;
}

void Shape::grow_to(std::size_t count) {
  if (count > std::numeric_limits<std::uint32_t>::max()) {
    throw std::length_error("too many dimensions of a shape");
  }
  const std::size_t room = std::max(
      count,
      std::min<std::size_t>(2 * std::size_t{capacity_}, std::numeric_limits<std::uint32_t>::max()));
  auto* const extents = new std::uint64_t[room];
  std::copy(begin(), end(), extents);
  release();
  heap_ = extents;
  capacity_ = static_cast<std::uint32_t>(room);
}

}  // namespace ttrace::tensor
