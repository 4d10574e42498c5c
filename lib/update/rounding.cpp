#include "update/rounding.h"

#include <limits>

namespace ttrace::update {

std::optional<double> unit_roundoff(tensor::DType dtype) {
  switch (dtype) {
    case tensor::DType::kFloat64:
      return 0x1p-53;
    case tensor::DType::kFloat32:
      return 0x1p-24;
    case tensor::DType::kFloat16:
      return 0x1p-11;
    case tensor::DType::kBFloat16:
      return 0x1p-8;
    default:
      return std::nullopt;
  }
}

double smallest_rounding(tensor::DType dtype) {
  switch (dtype) {
    case tensor::DType::kFloat64:
      return 0x1p-1022;
    case tensor::DType::kFloat16:
      return 0x1p-24;
    default:
      return 0x1p-126;
  }
}

double largest_finite(tensor::DType dtype) {
  switch (dtype) {
    case tensor::DType::kFloat64:
      return std::numeric_limits<double>::max();
    case tensor::DType::kFloat16:
      return 65504;
    case tensor::DType::kBFloat16:
      return 0x1.FEp127;
    default:
      return 0x1.FFFFFEp127;
  }
}

}  // namespace ttrace::update
