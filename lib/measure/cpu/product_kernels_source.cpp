// Compiled once per instruction set: TTRACE_PRODUCTS names the kernels, TTRACE_COLUMNS and
// TTRACE_ROWS say how many columns of a panel and rows of a thin product stay in registers.
// Everything else is in an anonymous namespace and uses no template of the library.
#include <cstring>

#include "measure/cpu/product_kernels.h"

namespace ttrace::measure {
namespace {

// 64 bytes: one register of AVX-512, two of AVX2, four of SSE2.
using PanelLanes = double __attribute__((vector_size(64)));
constexpr std::uint64_t kPanelLanes = 8;

template <std::uint64_t Columns>
inline __attribute__((always_inline)) void add_columns(std::uint64_t k, const double* a,
                                                       const double* b, double* c) {
  constexpr std::uint64_t kVectors = Columns / kPanelLanes;
  PanelLanes sums[kPanelRows][kVectors];
  for (std::uint64_t i = 0; i < kPanelRows; ++i) {
    for (std::uint64_t v = 0; v < kVectors; ++v) {
      std::memcpy(&sums[i][v], c + i * kPanelColumns + v * kPanelLanes, sizeof(PanelLanes));
    }
  }
  for (std::uint64_t step = 0; step < k; ++step) {
    PanelLanes row[kVectors];
    std::memcpy(row, b + step * kPanelColumns, sizeof row);
    for (std::uint64_t i = 0; i < kPanelRows; ++i) {
      const double factor = a[step * kPanelRows + i];
      for (std::uint64_t v = 0; v < kVectors; ++v) sums[i][v] += row[v] * factor;
    }
  }
  for (std::uint64_t i = 0; i < kPanelRows; ++i) {
    for (std::uint64_t v = 0; v < kVectors; ++v) {
      std::memcpy(c + i * kPanelColumns + v * kPanelLanes, &sums[i][v], sizeof(PanelLanes));
    }
  }
}

// `Rows` rows of a matrix that is not packed, times one panel.
template <std::uint64_t Rows>
inline __attribute__((always_inline)) void add_rows(std::uint64_t k, const double* a,
                                                    std::int64_t row_stride,
                                                    std::int64_t column_stride, const double* b,
                                                    double* c) {
  static_assert(kThinColumns == kPanelLanes);
  PanelLanes sums[Rows];
  std::memcpy(sums, c, sizeof sums);
  for (std::uint64_t step = 0; step < k; ++step) {
    PanelLanes row;
    std::memcpy(&row, b + step * kThinColumns, sizeof row);
    const double* column = a + static_cast<std::int64_t>(step) * column_stride;
    for (std::uint64_t i = 0; i < Rows; ++i) {
      sums[i] += row * column[static_cast<std::int64_t>(i) * row_stride];
    }
  }
  std::memcpy(c, sums, sizeof sums);
}

}  // namespace

const ProductKernels TTRACE_PRODUCTS = {
    [](std::uint64_t k, const double* a, const double* b, double* c) {
      for (std::uint64_t j = 0; j < kPanelColumns; j += TTRACE_COLUMNS) {
        // Without terms there may be no operands.
        add_columns<TTRACE_COLUMNS>(k, a, k == 0 ? b : b + j, c + j);
      }
    },
    [](std::uint64_t k, const double* a, std::int64_t row_stride, std::int64_t column_stride,
       const double* b, double* c) {
      for (std::uint64_t i = 0; i < kThinRows; i += TTRACE_ROWS) {
        const double* rows = k == 0 ? a : a + static_cast<std::int64_t>(i) * row_stride;
        add_rows<TTRACE_ROWS>(k, rows, row_stride, column_stride, b, c + i * kThinColumns);
      }
    }};

}  // namespace ttrace::measure
