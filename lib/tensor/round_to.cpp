#include "tensor/round_to.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace ttrace::tensor {
namespace {

struct Format {
  int digits = 0;           // of the significand, with the leading one
  int smallest = 0;         // exponent of the smallest normal number
  double largest = 0;       // finite number
  bool infinities = false;  // E4M3 has none
};

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return {11, -14, 65504, true};
    case DType::kBFloat16:
      return {8, -126, 0x1.fep127, true};
    case DType::kFloat8E4M3:
      return {4, -6, 448, false};
    case DType::kFloat8E5M2:
      return {3, -14, 57344, true};
    default:
      throw base::internal_error("rounding to ", dtype_name(dtype));
  }
}

double round_to(const Format& format, double value) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  if (!std::isfinite(value)) return format.infinities ? value : kNan;
  if (value == 0) return value;
  const int exponent = std::max(std::ilogb(value), format.smallest);
  const int last = exponent - (format.digits - 1);  // exponent of the last digit
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -last)), last);
  if (std::abs(rounded) <= format.largest) return rounded;
  return format.infinities ? std::copysign(std::numeric_limits<double>::infinity(), value) : kNan;
}

}  // namespace

double round_to(DType dtype, double value) {
  if (dtype == DType::kFloat64) return value;
  if (dtype == DType::kFloat32) return static_cast<double>(static_cast<float>(value));
  return round_to(format_of(dtype), value);
}

}  // namespace ttrace::tensor
