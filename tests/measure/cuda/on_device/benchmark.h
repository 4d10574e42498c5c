// How fast a device is, beside how fast its memory can be copied.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "measure/backend.h"
#include "measure/cuda/api.h"
#include "measure/cuda/cuda_backend.h"

namespace ttrace::test {

struct BenchmarkRow {
  std::string what;
  std::string measured;
  std::string target;
};

// `backend` uses the same device.
std::vector<BenchmarkRow> benchmark(const measure::cuda::Api& api, std::uint32_t device,
                                    const measure::Backend& backend);

// Products of matrices, alone and with their copies, beside cuBLAS where it is there.
std::vector<BenchmarkRow> benchmark_products(const measure::cuda::Api& api, std::uint32_t device,
                                             const measure::cuda::CudaBackend& backend);

}  // namespace ttrace::test
