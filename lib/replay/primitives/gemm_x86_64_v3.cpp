#include "replay/primitives/gemm_kernel_source.h"

namespace ttrace::replay {

void add_panels_x86_64_v3(std::uint64_t k, const double* a, const double* b, double* c) {
  add_columns<8>(k, a, b, c);
  add_columns<8>(k, a, b + 8, c + 8);
}

}  // namespace ttrace::replay
