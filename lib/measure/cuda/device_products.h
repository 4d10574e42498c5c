// Products of matrices on a device: operands are copied through the pinned memory of workspaces, in
// blocks where they do not fit as a whole. Blocks that a lost device leaves are computed on the
// CPU.
#pragma once

#include <cstdint>

#include "measure/cuda/device_gemm.h"
#include "measure/cuda/workspace.h"
#include "measure/products.h"

namespace ttrace::measure::cuda {

// Rows, columns and steps that are on the device at once.
struct ProductBlocks {
  std::uint64_t m = 0;
  std::uint64_t n = 0;
  std::uint64_t k = 0;

  std::uint64_t bytes() const { return sizeof(double) * (m * k + k * n + m * n); }
};

// The largest blocks of a product in so many bytes; 0 of each if there is room for none.
ProductBlocks blocks_within(ProductBlocks whole, std::uint64_t bytes);

// Computes the product to the bit of the CPU; with `gemm` as an estimate. False if there is no
// device or no memory; nothing is changed then.
bool multiply_on_device(WorkspacePool& pool, DeviceGemm* gemm, const Product& product);

}  // namespace ttrace::measure::cuda
