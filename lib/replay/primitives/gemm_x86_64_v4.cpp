#include "replay/primitives/gemm_kernel_source.h"

namespace ttrace::replay {

void add_panels_x86_64_v4(std::uint64_t k, const double* a, const double* b, double* c) {
  add_columns<16>(k, a, b, c);
}

void add_thin_x86_64_v4(std::uint64_t k, const double* a, std::int64_t row_stride,
                        std::int64_t column_stride, const double* b, double* c) {
  add_rows<8>(k, a, row_stride, column_stride, b, c);
}

}  // namespace ttrace::replay
