// One or several GPUs as a backend, through the table that the module offers (api.h). Gives the
// bits of the CPU.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "measure/backend.h"
#include "measure/cuda/api.h"
#include "measure/cuda/workspace.h"

namespace ttrace::measure::cuda {

class CudaBackend : public Backend {
 public:
  // `devices` must be there. The table and `cpu`, which computes what no device can take, must
  // outlive the backend.
  CudaBackend(const Api& api, const std::vector<std::uint32_t>& devices, PoolLimits limits,
              const Backend& cpu);

  std::string name() const override { return "cuda"; }
  // "sm_90 NVIDIA H100 (cuda:0)", one after the other.
  std::string instruction_set() const override { return description_; }
  std::string remarks() const override;
  // Of its devices, those that are not lost.
  bool reads_device(std::uint32_t device) const override { return pool_.has(device); }
  std::unique_ptr<Batch> new_batch() const override;

  // Copies values from the memory of a device to the host; the remarks say how many. Throws an
  // input error if that fails.
  void fetch(std::uint32_t device, std::span<const std::byte> from, std::span<std::byte> to) const {
    pool_.fetch(device, from, to);
  }

 private:
  const Backend& cpu_;
  std::string description_;
  mutable WorkspacePool pool_;
};

}  // namespace ttrace::measure::cuda
