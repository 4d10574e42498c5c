// Products of matrices in binary64, which a replay and some causes need. The order of sums is part
// of the interface: every element is the sum over k ascending, rounded after every product and
// every addition. The CPU does this on any machine, and a backend may do it too.
#pragma once

#include <cstdint>

namespace ttrace::measure {

// A matrix in memory.
struct MatrixView {
  const double* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 1;

  MatrixView transposed() const { return {data, column_stride, row_stride}; }
  // From this row and column on.
  MatrixView at(std::uint64_t row, std::uint64_t column) const {
    return {data + static_cast<std::int64_t>(row) * row_stride +
                static_cast<std::int64_t>(column) * column_stride,
            row_stride, column_stride};
  }
};

// c[i, j] = Σ_k a[i, k]·b[k, j], or c[i, j] + Σ with `add`, for c of m × n elements whose rows are
// `row_stride` apart.
struct Product {
  std::uint64_t m = 0;
  std::uint64_t n = 0;
  std::uint64_t k = 0;
  MatrixView a;
  MatrixView b;
  double* c = nullptr;
  std::int64_t row_stride = 0;
  bool add = false;
};

// On the CPU: on the calling thread, with the fastest instruction set of the machine.
void multiply(const Product& product);
void multiply(std::uint64_t m, std::uint64_t n, std::uint64_t k, MatrixView a, MatrixView b,
              double* c, std::int64_t row_stride, bool add);

// The rows and columns of a result that are worth a call on another thread.
inline constexpr std::uint64_t kRowsPerCall = 256;
inline constexpr std::uint64_t kColumnsPerCall = 512;

// Multiplies matrices for a backend (Backend::products). Its members may be called from several
// threads.
class ProductBackend {
 public:
  virtual ~ProductBackend() = default;

  // Whether a product of this size ends sooner here than on `threads` threads of the CPU.
  virtual bool pays(std::uint64_t m, std::uint64_t n, std::uint64_t k, unsigned threads) const = 0;
  // Computes a product to the bit of the CPU. False if that cannot be done now; c is as before
  // then.
  virtual bool multiply(const Product& product) const = 0;
  // The same with sums in any order, which may be faster: an estimate is off by at most
  // 2k·2⁻⁵³·Σ_k |a[i, k]·b[k, j]|. No report may print what follows from it.
  virtual bool estimate(const Product& product) const { return multiply(product); }
};

}  // namespace ttrace::measure
