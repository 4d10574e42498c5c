// Softmax of one row, which attention needs too.
#pragma once

#include <cstdint>

namespace ttrace::specification {

// out[i] = e^x[i] / Σ e^x, n ≥ 1; NaN where all x are -inf. `out` may be `x`.
void softmax_row(const double* x, double* out, std::uint64_t n);

}  // namespace ttrace::specification
