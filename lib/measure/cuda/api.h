// What the module ttrace_cuda.so offers: a table of the few functions of the CUDA runtime that the
// backend needs, and the launches of its kernels. The backend is written against this table, so
// that it is built and tested without CUDA; the module is opened at run time (module.h).
#pragma once

#include <cstdint>

#include "measure/cuda/kernels/work.h"

namespace ttrace::measure::cuda {

// The version of the three functions below. The build id, a hash of this folder's sources
// (CMakeLists.txt), covers the table and the kernels' data: both must agree.
inline constexpr std::uint32_t kInterfaceVersion = 1;

// Stands for the host in place of a device.
inline constexpr std::uint32_t kHostMemory = 0xffffffffU;

enum class Status : std::uint32_t {
  kOk,
  kOutOfMemory,
  kNoDriver,
  kOldDriver,
  kNoDevice,
  kFailed,  // anything else; the device is not used again
};

struct DeviceInfo {
  char name[256] = {};
  std::uint32_t capability = 0;  // 90 for sm_90
  std::uint64_t memory_bytes = 0;
};

// Functions may be called from several threads, a stream from one at a time. Uploads, downloads and
// launches are queued on a stream, in order; wait() returns when all are done.
struct Api {
  Status (*count_devices)(std::uint32_t* count);
  Status (*describe)(std::uint32_t device, DeviceInfo* info);
  Status (*allocate)(std::uint32_t device, std::uint64_t bytes, void** memory);
  void (*release)(std::uint32_t device, void* memory);
  Status (*allocate_pinned)(std::uint32_t device, std::uint64_t bytes, void** memory);
  void (*release_pinned)(std::uint32_t device, void* memory);
  Status (*create_stream)(std::uint32_t device, void** stream);
  void (*destroy_stream)(std::uint32_t device, void* stream);
  Status (*upload)(std::uint32_t device, void* stream, void* to, const void* from,
                   std::uint64_t bytes);
  Status (*download)(std::uint32_t device, void* stream, void* to, const void* from,
                     std::uint64_t bytes);
  Status (*launch_tiles)(std::uint32_t device, void* stream, const TileLaunch* launch);
  Status (*launch_rows)(std::uint32_t device, void* stream, const RowsLaunch* launch);
  Status (*launch_product)(std::uint32_t device, void* stream, const ProductLaunch* launch);
  Status (*wait)(std::uint32_t device, void* stream);
  // Copies from the device's memory and returns when it is done.
  Status (*fetch)(std::uint32_t device, void* to, const void* from, std::uint64_t bytes);
  // Sets `owner` to the device whose memory `memory` points at, or to kHostMemory. `device` is a
  // device that is in use anyway.
  Status (*find_owner)(std::uint32_t device, const void* memory, std::uint32_t* owner);
  // What CUDA says about the last failure of the calling thread.
  const char* (*last_error)();
};

}  // namespace ttrace::measure::cuda

// What the module exports.
extern "C" {
[[gnu::visibility("default")]] std::uint32_t ttrace_cuda_interface_version();
[[gnu::visibility("default")]] const char* ttrace_cuda_build_id();
[[gnu::visibility("default")]] const ttrace::measure::cuda::Api* ttrace_cuda_api();
}
