#include "specification/evaluate/bands.h"

#include <algorithm>
#include <cmath>

namespace ttrace::specification {

void add(const Bands& more, Bands& bands) {
  for (std::size_t b = 0; b < kBands; ++b) {
    bands[b].elements += more[b].elements;
    bands[b].error += more[b].error;
    bands[b].expected += more[b].expected;
    bands[b].spread += more[b].spread;
    bands[b].spread_fourth += more[b].spread_fourth;
  }
}

bool has_small_elements(const Value& value) {
  constexpr std::uint64_t kShare = 8;
  const Value dense = value.to_dense();
  const std::uint64_t columns = dense.shape().empty() ? 1 : dense.shape().back();
  std::uint64_t small = 0;
  std::uint64_t all = 0;
  const double* row = dense.data();
  for (std::uint64_t done = 0; done < dense.size(); done += columns, row += columns) {
    unsigned largest = 0;
    for (std::uint64_t i = 0; i < columns; ++i) {
      if (std::isfinite(row[i])) largest = std::max(largest, exponent_of(row[i]));
    }
    for (std::uint64_t i = 0; i < columns; ++i) {
      const unsigned exponent = exponent_of(row[i]);
      if (exponent == 0 || exponent > largest) continue;
      ++all;
      small += band_of(exponent, largest) > 0 ? 1 : 0;
    }
  }
  return small > 0 && small >= all / kShare;
}

double smallest_normal(tensor::DType dtype) {
  return tensor::quantum(dtype) / tensor::epsilon(dtype);
}

}  // namespace ttrace::specification
