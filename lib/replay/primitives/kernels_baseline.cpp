// The kernels for one instruction set.
#include "replay/primitives/exponential_kernel.h"
#include "replay/primitives/gemm_kernel_source.h"

namespace ttrace::replay {

void add_panels_baseline(std::uint64_t k, const double* a, const double* b, double* c) {
  add_columns<8>(k, a, b, c);
  add_columns<8>(k, a, b + 8, c + 8);
}

void add_thin_baseline(std::uint64_t k, const double* a, std::int64_t row_stride,
                       std::int64_t column_stride, const double* b, double* c) {
  for (std::uint64_t i = 0; i < kThinRows; i += 2) {
    add_rows<2>(k, a + static_cast<std::int64_t>(i) * row_stride, row_stride, column_stride, b,
                c + i * kThinColumns);
  }
}

double add_exponentials_baseline(const double* x, double shift, double* out, std::uint64_t n) {
  return add_all_exponentials(x, shift, out, n);
}

}  // namespace ttrace::replay
