// The inner loop of products. Compiled once per instruction set: the order of every sum is the
// same.
#pragma once

#include <cstdint>

namespace ttrace::replay {

// Panels are packed: `a` holds kPanelRows rows, `b` kPanelColumns columns, step by step along k.
inline constexpr std::uint64_t kPanelRows = 4;
inline constexpr std::uint64_t kPanelColumns = 16;

// Adds the product of two panels to `c`, a dense kPanelRows × kPanelColumns block.
using PanelKernel = void (*)(std::uint64_t k, const double* a, const double* b, double* c);

// Products with a few columns read the left matrix once and do not pack it.
inline constexpr std::uint64_t kThinRows = 8;
inline constexpr std::uint64_t kThinColumns = 8;

// Adds the product of kThinRows rows of `a` and a panel of kThinColumns columns to the dense block
// `c`.
using ThinKernel = void (*)(std::uint64_t k, const double* a, std::int64_t row_stride,
                            std::int64_t column_stride, const double* b, double* c);

void add_thin_baseline(std::uint64_t k, const double* a, std::int64_t row_stride,
                       std::int64_t column_stride, const double* b, double* c);
void add_thin_x86_64_v3(std::uint64_t k, const double* a, std::int64_t row_stride,
                        std::int64_t column_stride, const double* b, double* c);
void add_thin_x86_64_v4(std::uint64_t k, const double* a, std::int64_t row_stride,
                        std::int64_t column_stride, const double* b, double* c);

void add_panels_baseline(std::uint64_t k, const double* a, const double* b, double* c);
void add_panels_x86_64_v3(std::uint64_t k, const double* a, const double* b, double* c);
void add_panels_x86_64_v4(std::uint64_t k, const double* a, const double* b, double* c);

}  // namespace ttrace::replay
