// The inner loops of products. Compiled once per instruction set: the order of every sum is the
// same.
#pragma once

#include <cstdint>

namespace ttrace::measure {

// ProductKernels are packed: `a` holds kPanelRows rows, `b` kPanelColumns columns, step by step
// along k.
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

// The kernels of one instruction set.
struct ProductKernels {
  PanelKernel add_panels;
  ThinKernel add_thin;
};

extern const ProductKernels kProductsBaseline;
extern const ProductKernels kProductsV3;  // of x86-64 alone, as the next
extern const ProductKernels kProductsV4;

// The fastest that base::instruction_sets() allows.
const ProductKernels& fastest_product_kernels();

}  // namespace ttrace::measure
