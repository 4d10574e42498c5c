#include "measure/cuda/cuda_backend.h"

#include "base/text.h"
#include "measure/cuda/batch.h"

namespace ttrace::measure::cuda {

CudaBackend::CudaBackend(const Api& api, const std::vector<std::uint32_t>& devices,
                         PoolLimits limits, const Backend& cpu)
    : cpu_(cpu), pool_(api, devices, limits) {
  for (const std::uint32_t index : devices) {
    DeviceInfo info;
    api.describe(index, &info);
    description_ += base::concat(description_.empty() ? "" : ", ", "sm_", info.capability, " ",
                                 base::printable(info.name), " (cuda:", index, ")");
  }
}

std::unique_ptr<Batch> CudaBackend::new_batch() const {
  return std::make_unique<CudaBatch>(pool_, cpu_);
}

std::string CudaBackend::remarks() const { return pool_.remarks(); }

}  // namespace ttrace::measure::cuda
