// The GPUs in whose memory tensors of a request lie, through the CUDA module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>

#include "measure/cuda/cuda_backend.h"
#include "measure/cuda/module.h"
#include "ttrace.h"

namespace ttrace::library {

class Devices {
 public:
  // Opens the module if any tensor of the request is on a device; else nothing is loaded.
  explicit Devices(const ttrace_comparison& request);

  // Throws an input error if the library cannot read the tensor's device, or if its data is not
  // memory of this device.
  void require_memory(const ttrace_tensor& tensor) const;
  // Copies values from a device's memory to the host; throws as CudaBackend::fetch.
  void fetch(std::uint32_t device, std::span<const std::byte> from, std::span<std::byte> to) const;

  // The backend of the devices, or of the CPU if no tensor is on a device.
  const measure::Backend& backend() const;

 private:
  void open();

  std::set<std::uint32_t> used_;
  const measure::cuda::Api* api_ = nullptr;
  measure::cuda::FoundDevices found_;
  std::string problem_;  // why no device can be read
  std::unique_ptr<measure::cuda::CudaBackend> backend_;
};

// Whether any tensor of the request says that it is on a device.
bool uses_devices(const ttrace_comparison& request);

}  // namespace ttrace::library
