#include "replay/primitives/gemm_kernel_source.h"

namespace ttrace::replay {

void add_panels_x86_64_v4(std::uint64_t k, const double* a, const double* b, double* c) {
  add_columns<16>(k, a, b, c);
}

}  // namespace ttrace::replay
