#include "measure/products.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/instruction_sets.h"
#include "measure/cpu/product_kernels.h"

namespace ttrace::measure {
namespace {

constexpr std::uint64_t kDepth = 256;  // of packed panels: both fit the second cache

// Packs `lines` lines of `depth` elements into panels of `width` lines; missing lines are 0.
void pack(const double* data, std::int64_t line_stride, std::int64_t depth_stride,
          std::uint64_t lines, std::uint64_t depth, std::uint64_t width, std::vector<double>& out) {
  const std::uint64_t panels = (lines + width - 1) / width;
  out.resize(panels * width * depth);
  for (std::uint64_t p = 0; p < panels; ++p) {
    double* to = out.data() + p * width * depth;
    const std::uint64_t held = std::min(width, lines - p * width);
    const double* from = data + static_cast<std::int64_t>(p * width) * line_stride;
    if (held < width) std::fill(to, to + width * depth, 0.0);
    if (line_stride == 1) {
      for (std::uint64_t d = 0; d < depth; ++d) {
        const double* row = from + static_cast<std::int64_t>(d) * depth_stride;
        for (std::uint64_t i = 0; i < held; ++i) to[d * width + i] = row[i];
      }
    } else {
      for (std::uint64_t i = 0; i < held; ++i) {
        const double* line = from + static_cast<std::int64_t>(i) * line_stride;
        for (std::uint64_t d = 0; d < depth; ++d) {
          to[d * width + i] = line[static_cast<std::int64_t>(d) * depth_stride];
        }
      }
    }
  }
}

// One block of the result, at most kRowsPerCall × kColumnsPerCall.
class BlockProduct {
 public:
  void multiply(std::uint64_t m, std::uint64_t n, std::uint64_t k, MatrixView a, MatrixView b,
                double* c, std::int64_t row_stride, bool add) {
    if (!add || k == 0) {
      for (std::uint64_t i = 0; !add && i < m; ++i) {
        double* row = c + static_cast<std::int64_t>(i) * row_stride;
        std::fill(row, row + n, 0.0);
      }
    }
    for (std::uint64_t start = 0; start < k; start += kDepth) {
      const std::uint64_t depth = std::min(kDepth, k - start);
      const auto at = static_cast<std::int64_t>(start);
      pack(a.data + at * a.column_stride, a.row_stride, a.column_stride, m, depth, kPanelRows,
           left_);
      pack(b.data + at * b.row_stride, b.column_stride, b.row_stride, n, depth, kPanelColumns,
           right_);
      for (std::uint64_t j = 0; j < n; j += kPanelColumns) {
        for (std::uint64_t i = 0; i < m; i += kPanelRows) {
          add_panel(i, j, std::min(kPanelRows, m - i), std::min(kPanelColumns, n - j), depth, c,
                    row_stride);
        }
      }
    }
  }

 private:
  void add_panel(std::uint64_t i, std::uint64_t j, std::uint64_t rows, std::uint64_t columns,
                 std::uint64_t depth, double* c, std::int64_t row_stride) {
    static const PanelKernel kernel = fastest_product_kernels().add_panels;
    alignas(64) std::array<double, kPanelRows * kPanelColumns> sums{};
    double* block = c + static_cast<std::int64_t>(i) * row_stride + j;
    for (std::uint64_t r = 0; r < rows; ++r) {
      const double* row = block + static_cast<std::int64_t>(r) * row_stride;
      std::copy(row, row + columns, sums.begin() + static_cast<std::ptrdiff_t>(r * kPanelColumns));
    }
    kernel(depth, left_.data() + i * depth, right_.data() + j * depth, sums.data());
    for (std::uint64_t r = 0; r < rows; ++r) {
      const double* row = sums.data() + r * kPanelColumns;
      std::copy(row, row + columns, block + static_cast<std::int64_t>(r) * row_stride);
    }
  }

  std::vector<double> left_;
  std::vector<double> right_;
};

// At most kThinColumns columns. The sums have the order of the other products: along k.
void multiply_thin(std::uint64_t m, std::uint64_t n, std::uint64_t k, MatrixView a, MatrixView b,
                   double* c, std::int64_t row_stride, bool add) {
  static const ThinKernel kernel = fastest_product_kernels().add_thin;
  std::vector<double> packed;
  pack(b.data, b.column_stride, b.row_stride, n, k, kThinColumns, packed);
  std::vector<double> last_rows;
  for (std::uint64_t i = 0; i < m; i += kThinRows) {
    const std::uint64_t rows = std::min(kThinRows, m - i);
    MatrixView left{a.data + static_cast<std::int64_t>(i) * a.row_stride, a.row_stride,
                    a.column_stride};
    if (rows < kThinRows) {
      pack(left.data, left.row_stride, left.column_stride, rows, k, kThinRows, last_rows);
      left = {last_rows.data(), 1, static_cast<std::int64_t>(kThinRows)};
    }
    alignas(64) std::array<double, kThinRows * kThinColumns> sums{};
    for (std::uint64_t r = 0; add && r < rows; ++r) {
      const double* row = c + static_cast<std::int64_t>(i + r) * row_stride;
      std::copy(row, row + n, sums.begin() + static_cast<std::ptrdiff_t>(r * kThinColumns));
    }
    kernel(k, left.data, left.row_stride, left.column_stride, packed.data(), sums.data());
    for (std::uint64_t r = 0; r < rows; ++r) {
      const double* row = sums.data() + r * kThinColumns;
      std::copy(row, row + n, c + static_cast<std::int64_t>(i + r) * row_stride);
    }
  }
}

}  // namespace

const ProductKernels& fastest_product_kernels() {
#ifdef __x86_64__
  if (base::instruction_sets().v4) return kProductsV4;
  if (base::instruction_sets().v3) return kProductsV3;
#endif
  return kProductsBaseline;
}

void multiply(const Product& p) { multiply(p.m, p.n, p.k, p.a, p.b, p.c, p.row_stride, p.add); }

void multiply(std::uint64_t m, std::uint64_t n, std::uint64_t k, MatrixView a, MatrixView b,
              double* c, std::int64_t row_stride, bool add) {
  if (n <= kThinColumns) return multiply_thin(m, n, k, a, b, c, row_stride, add);
  BlockProduct block;
  for (std::uint64_t i = 0; i < m; i += kRowsPerCall) {
    for (std::uint64_t j = 0; j < n; j += kColumnsPerCall) {
      const auto row = static_cast<std::int64_t>(i);
      const auto column = static_cast<std::int64_t>(j);
      block.multiply(std::min(kRowsPerCall, m - i), std::min(kColumnsPerCall, n - j), k,
                     {a.data + row * a.row_stride, a.row_stride, a.column_stride},
                     {b.data + column * b.column_stride, b.row_stride, b.column_stride},
                     c + row * row_stride + column, row_stride, add);
    }
  }
}

}  // namespace ttrace::measure
