// The kernels for one instruction set.
#include "replay/primitives/exponential_kernel.h"
#include "replay/primitives/gemm_kernel_source.h"

namespace ttrace::replay {

void add_panels_x86_64_v4(std::uint64_t k, const double* a, const double* b, double* c) {
  add_columns<16>(k, a, b, c);
}

void add_thin_x86_64_v4(std::uint64_t k, const double* a, std::int64_t row_stride,
                        std::int64_t column_stride, const double* b, double* c) {
  add_rows<8>(k, a, row_stride, column_stride, b, c);
}

double add_exponentials_x86_64_v4(const double* x, double shift, double* out, std::uint64_t n) {
  return add_all_exponentials(x, shift, out, n);
}

}  // namespace ttrace::replay
