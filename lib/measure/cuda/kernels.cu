#include "measure/cuda/kernels.h"
#include "measure/cuda/kernels/execution.h"
#include "measure/cuda/kernels/products.h"
#include "measure/cuda/kernels/rows.h"
#include "measure/cuda/kernels/tiles.h"
#include "measure/cuda/kernels/updates.h"

namespace ttrace::measure::cuda {
namespace {

constexpr unsigned kWarpsPerBlock = 8;
constexpr unsigned kTileThreads = kWarpsPerBlock * kWarp;
constexpr unsigned kColumnsPerBlock = 128;

// The second bound, blocks of a multiprocessor, leaves registers enough that nothing is spilled.
template <typename Type>
__global__ void __launch_bounds__(kTileThreads, 4) stored_tiles(TileLaunch launch) {
  DeviceExecution execution;
  sum_pairs<StoredTile<Type>>(execution, launch);
}

__global__ void __launch_bounds__(kTileThreads, 2) number_tiles(TileLaunch launch) {
  DeviceExecution execution;
  sum_pairs<NumbersTile>(execution, launch);
}

__global__ void __launch_bounds__(kTileThreads, 2) integer_tiles(TileLaunch launch) {
  DeviceExecution execution;
  sum_integers(execution, launch);
}

__global__ void __launch_bounds__(kTileThreads, 1) update_tiles(TileLaunch launch) {
  DeviceExecution execution;
  judge_updates(execution, launch);
}

__global__ void __launch_bounds__(kWarp) moments_of_rows(RowsLaunch launch) {
  DeviceExecution execution;
  row_moments(execution, launch);
}

__global__ void __launch_bounds__(kColumnsPerBlock) sums_of_rows(RowsLaunch launch) {
  DeviceExecution execution;
  sum_rows(execution, launch);
}

// Two blocks of a multiprocessor hide each other's waiting.
template <bool kExactProducts>
__global__ void __launch_bounds__(kProductThreads, 2) products(ProductLaunch launch) {
  DeviceExecution execution;
  multiply_blocks<kExactProducts>(execution, launch);
}

unsigned blocks_of(std::uint64_t count, std::uint64_t per_block) {
  return static_cast<unsigned>((count + per_block - 1) / per_block);
}

using TileKernel = void (*)(TileLaunch);

TileKernel stored_kernel(tensor::DType dtype) {
  switch (dtype) {
    case tensor::DType::kFloat64:
      return stored_tiles<StoredF64>;
    case tensor::DType::kFloat32:
      return stored_tiles<StoredF32>;
    case tensor::DType::kFloat16:
      return stored_tiles<StoredF16>;
    case tensor::DType::kBFloat16:
      return stored_tiles<StoredBF16>;
    case tensor::DType::kFloat8E4M3:
      return stored_tiles<StoredF8E4M3>;
    case tensor::DType::kFloat8E5M2:
      return stored_tiles<StoredF8E5M2>;
    default:
      return number_tiles;
  }
}

TileKernel kernel_of(const TileLaunch& launch) {
  switch (launch.arithmetic) {
    case TileArithmetic::kStored:
      return stored_kernel(launch.dtype);
    case TileArithmetic::kNumbers:
      return number_tiles;
    case TileArithmetic::kIntegers:
      return integer_tiles;
    case TileArithmetic::kUpdates:
      return update_tiles;
  }
  return number_tiles;
}

}  // namespace

cudaError_t launch(const TileLaunch& launch, cudaStream_t stream) {
  if (launch.tiles == 0) return cudaSuccess;
  const unsigned blocks = blocks_of(launch.tiles, kWarpsPerBlock);
  kernel_of(launch)<<<blocks, kTileThreads, 0, stream>>>(launch);
  return cudaGetLastError();
}

cudaError_t launch(const RowsLaunch& launch, cudaStream_t stream) {
  if (launch.rows == 0 || launch.length == 0) return cudaSuccess;
  std::uint64_t sums = 1;
  if (launch.input.bits != nullptr) {
    moments_of_rows<<<blocks_of(launch.rows, kWarp), kWarp, 0, stream>>>(launch);
    if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return error;
    sums += 2 * static_cast<std::uint64_t>(launch.norms);
  }
  sums_of_rows<<<blocks_of(sums * launch.length, kColumnsPerBlock), kColumnsPerBlock, 0, stream>>>(
      launch);
  return cudaGetLastError();
}

cudaError_t launch(const ProductLaunch& launch, cudaStream_t stream) {
  if (launch.m == 0 || launch.n == 0) return cudaSuccess;
  const auto kernel = launch.exact_products ? products<true> : products<false>;
  kernel<<<static_cast<unsigned>(product_blocks(launch)), kProductThreads, 0, stream>>>(launch);
  return cudaGetLastError();
}

}  // namespace ttrace::measure::cuda
