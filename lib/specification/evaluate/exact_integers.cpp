#include "specification/evaluate/exact_integers.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace ttrace::specification {
namespace {

constexpr int kBitsOfDouble = 53;

bool has_sign(tensor::DType dtype) { return tensor::dtype_name(dtype).front() == 'i'; }

// The first whole number that is too large.
double end_of(tensor::DType dtype) {
  const int bits = static_cast<int>(8 * tensor::element_bytes(dtype)) - (has_sign(dtype) ? 1 : 0);
  return std::ldexp(1, std::min(bits, kBitsOfDouble));
}

}  // namespace

void require_exact_integers(const Value& value, tensor::DType dtype) {
  if (tensor::is_floating(dtype) || dtype == tensor::DType::kBool) return;
  const Value dense = value.to_dense();
  const double end = end_of(dtype);
  const double least = has_sign(dtype) ? -end : 0;
  for (const double element : dense.elements()) {
    // A cast of an infinite number has no defined result; programs that make one do not use it.
    if (std::isfinite(element) && (element < least || element >= end)) {
      throw base::input_error("whole numbers beyond 2^53 or their type, which are not exact here");
    }
  }
}

}  // namespace ttrace::specification
