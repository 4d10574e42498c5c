// Products of matrices on the CPU (products.h), on any machine with the same bits.
#pragma once

#include <cstdint>

#include "measure/products.h"

namespace ttrace::measure {

// On the calling thread, with the fastest instruction set of the machine.
void multiply(const Product& product);
void multiply(std::uint64_t m, std::uint64_t n, std::uint64_t k, MatrixView a, MatrixView b,
              double* c, std::int64_t row_stride, bool add);

// The rows and columns of a result that are worth a call on another thread.
inline constexpr std::uint64_t kRowsPerCall = 256;
inline constexpr std::uint64_t kColumnsPerCall = 512;

}  // namespace ttrace::measure
