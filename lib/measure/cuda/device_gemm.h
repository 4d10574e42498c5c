// Products in the memory of a device by another library, for estimates: their sums have another
// order. measure/cuda opens cuBLAS behind it.
#pragma once

#include <cstdint>
#include <string>

#include "measure/cuda/kernels/work.h"

namespace ttrace::measure::cuda {

// Its members may be called from several threads.
class DeviceGemm {
 public:
  virtual ~DeviceGemm() = default;

  // Queues the product on a stream of the device, which the calling thread uses already. False if
  // it cannot, and nothing is queued then.
  virtual bool multiply(std::uint32_t device, void* stream, const ProductLaunch& launch) = 0;
  // What was multiplied, or why nothing was; empty if nothing was asked for.
  virtual std::string remarks() const = 0;
};

}  // namespace ttrace::measure::cuda
