// Launches of the kernels; kernels.cu is the only file that nvcc compiles.
#pragma once

#include <cuda_runtime_api.h>

#include "measure/cuda/kernels/work.h"

namespace ttrace::measure::cuda {

cudaError_t launch(const TileLaunch& launch, cudaStream_t stream);
cudaError_t launch(const RowsLaunch& launch, cudaStream_t stream);
cudaError_t launch(const ProductLaunch& launch, cudaStream_t stream);

}  // namespace ttrace::measure::cuda
