#include "compare/stored_values.h"

#include "tensor/decode.h"

namespace ttrace::compare {

void decode(const StoredValues& values, std::span<double> out) {
  tensor::decode_floats(values.dtype, values.bits, out);
  if (values.scale == 1) return;
  for (double& value : out) value *= values.scale;
}

}  // namespace ttrace::compare
