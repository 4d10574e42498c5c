// Products of matrices in binary64 with a fixed order: every element is the sum over k in ascending
// order, rounded after every product and every addition, on any machine.
#pragma once

#include <cstdint>

namespace ttrace::replay {

// A matrix in memory.
struct MatrixView {
  const double* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 1;

  MatrixView transposed() const { return {data, column_stride, row_stride}; }
};

// c[i, j] = Σ_k a[i, k]·b[k, j], or c[i, j] + Σ with `add`, for c of m × n elements whose rows are
// `row_stride` apart. On the calling thread, with the fastest instruction set of the machine.
void multiply(std::uint64_t m, std::uint64_t n, std::uint64_t k, MatrixView a, MatrixView b,
              double* c, std::int64_t row_stride, bool add);

// The rows and columns of a result that are worth a call on another thread.
inline constexpr std::uint64_t kRowsPerCall = 256;
inline constexpr std::uint64_t kColumnsPerCall = 512;

}  // namespace ttrace::replay
