// One or several GPUs as a backend, through the table that the module offers (api.h). Gives the
// bits of the CPU.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "measure/backend.h"
#include "measure/cuda/api.h"
#include "measure/cuda/costs.h"
#include "measure/cuda/device_gemm.h"
#include "measure/cuda/workspace.h"
#include "measure/products.h"

namespace ttrace::measure::cuda {

class CudaBackend : public Backend, public ProductBackend {
 public:
  // `devices` must be there. The table and `cpu`, which computes what no device can take, must
  // outlive the backend.
  CudaBackend(const Api& api, const std::vector<std::uint32_t>& devices, PoolLimits limits,
              const Backend& cpu);

  std::string name() const override { return "cuda"; }
  // "sm_90 NVIDIA H100 (cuda:0)", one after the other.
  std::string instruction_set() const override { return description_; }
  std::string remarks() const override;
  // True of its devices that are not lost.
  bool reads_device(std::uint32_t device) const override { return pool_.has(device); }
  std::unique_ptr<Batch> new_batch() const override;

  std::size_t pairs_per_batch() const override { return 4096; }
  const ProductBackend* products() const override { return this; }

  bool pays(std::uint64_t m, std::uint64_t n, std::uint64_t k, unsigned threads) const override;
  bool multiply(const Product& product) const override;
  bool estimate(const Product& product) const override;
  // Replaces the usual costs of products.
  void set_costs(const Costs& costs) { costs_ = costs; }
  // Lets another library make the estimates. It must outlive the backend.
  void set_gemm(DeviceGemm& gemm) { gemm_ = &gemm; }

  // Copies values from the memory of a device to the host; the remarks say how many. Throws an
  // input error if that fails.
  void fetch(std::uint32_t device, std::span<const std::byte> from, std::span<std::byte> to) const {
    pool_.fetch(device, from, to);
  }

 private:
  const Backend& cpu_;
  std::string description_;
  Costs costs_;
  DeviceGemm* gemm_ = nullptr;
  mutable WorkspacePool pool_;
};

}  // namespace ttrace::measure::cuda
