// Included by one file per instruction set.
#pragma once

#include <cstring>

#include "replay/primitives/exponential_kernel.h"
#include "replay/primitives/kernels.h"

namespace ttrace::replay {
namespace {

// 64 bytes: one register of AVX-512, two of AVX2, four of SSE2.
using Lanes = double __attribute__((vector_size(64)));
constexpr std::uint64_t kLanes = 8;

template <std::uint64_t Columns>
inline __attribute__((always_inline)) void add_columns(std::uint64_t k, const double* a,
                                                       const double* b, double* c) {
  constexpr std::uint64_t kVectors = Columns / kLanes;
  Lanes sums[kPanelRows][kVectors];
  for (std::uint64_t i = 0; i < kPanelRows; ++i) {
    for (std::uint64_t v = 0; v < kVectors; ++v) {
      std::memcpy(&sums[i][v], c + i * kPanelColumns + v * kLanes, sizeof(Lanes));
    }
  }
  for (std::uint64_t step = 0; step < k; ++step) {
    Lanes row[kVectors];
    std::memcpy(row, b + step * kPanelColumns, sizeof row);
    for (std::uint64_t i = 0; i < kPanelRows; ++i) {
      const double factor = a[step * kPanelRows + i];
      for (std::uint64_t v = 0; v < kVectors; ++v) sums[i][v] += row[v] * factor;
    }
  }
  for (std::uint64_t i = 0; i < kPanelRows; ++i) {
    for (std::uint64_t v = 0; v < kVectors; ++v) {
      std::memcpy(c + i * kPanelColumns + v * kLanes, &sums[i][v], sizeof(Lanes));
    }
  }
}

// `Rows` rows of a matrix that is not packed, times one panel.
template <std::uint64_t Rows>
inline __attribute__((always_inline)) void add_rows(std::uint64_t k, const double* a,
                                                    std::int64_t row_stride,
                                                    std::int64_t column_stride, const double* b,
                                                    double* c) {
  static_assert(kThinColumns == kLanes);
  Lanes sums[Rows];
  std::memcpy(sums, c, sizeof sums);
  for (std::uint64_t step = 0; step < k; ++step) {
    Lanes row;
    std::memcpy(&row, b + step * kThinColumns, sizeof row);
    const double* column = a + static_cast<std::int64_t>(step) * column_stride;
    for (std::uint64_t i = 0; i < Rows; ++i) {
      sums[i] += row * column[static_cast<std::int64_t>(i) * row_stride];
    }
  }
  std::memcpy(c, sums, sizeof sums);
}

// Products add kColumns columns of a panel at a time, and thin products kRows rows.
template <std::uint64_t kColumns, std::uint64_t kRows>
constexpr Kernels kernels_of() {
  return {[](std::uint64_t k, const double* a, const double* b, double* c) {
            for (std::uint64_t j = 0; j < kPanelColumns; j += kColumns) {
              add_columns<kColumns>(k, a, b + j, c + j);
            }
          },
          [](std::uint64_t k, const double* a, std::int64_t row_stride, std::int64_t column_stride,
             const double* b, double* c) {
            for (std::uint64_t i = 0; i < kThinRows; i += kRows) {
              add_rows<kRows>(k, a + static_cast<std::int64_t>(i) * row_stride, row_stride,
                              column_stride, b, c + i * kThinColumns);
            }
          },
          add_all_exponentials};
}

}  // namespace
}  // namespace ttrace::replay
