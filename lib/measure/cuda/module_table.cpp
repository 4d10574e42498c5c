// The module's side of api.h: the CUDA runtime behind the table.
#include <cuda_runtime_api.h>

#include <cstdio>

#include "measure/cuda/api.h"
#include "measure/cuda/kernels.h"

namespace ttrace::measure::cuda {
namespace {

const char*& last_failure() {
  thread_local const char* text = "";
  return text;
}

Status status_of(cudaError_t error) {
  if (error == cudaSuccess) return Status::kOk;
  last_failure() = cudaGetErrorString(error);
  static_cast<void>(cudaGetLastError());  // forgets errors that leave the device usable
  switch (error) {
    case cudaErrorMemoryAllocation:
      return Status::kOutOfMemory;
    case cudaErrorInsufficientDriver: {
      int driver = 0;
      const bool known = cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0;
      return known ? Status::kOldDriver : Status::kNoDriver;
    }
    case cudaErrorNoDevice:
      return Status::kNoDevice;
    default:
      return Status::kFailed;
  }
}

// Runs `call` with `device` as the thread's device.
template <typename Call>
Status on_device(std::uint32_t device, Call call) {
  const cudaError_t error = cudaSetDevice(static_cast<int>(device));
  return status_of(error == cudaSuccess ? call() : error);
}

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

Status count_devices(std::uint32_t* count) {
  int found = 0;
  const Status status = status_of(cudaGetDeviceCount(&found));
  *count = status == Status::kOk ? static_cast<std::uint32_t>(found) : 0;
  return status;
}

Status describe(std::uint32_t device, DeviceInfo* info) {
  cudaDeviceProp properties;
  const cudaError_t error = cudaGetDeviceProperties(&properties, static_cast<int>(device));
  if (error != cudaSuccess) return status_of(error);
  std::snprintf(info->name, sizeof info->name, "%s", properties.name);
  info->capability = static_cast<std::uint32_t>(properties.major * 10 + properties.minor);
  info->memory_bytes = properties.totalGlobalMem;
  return Status::kOk;
}

Status allocate(std::uint32_t device, std::uint64_t bytes, void** memory) {
  return on_device(device, [&] { return cudaMalloc(memory, bytes); });
}

void release(std::uint32_t device, void* memory) {
  on_device(device, [&] { return cudaFree(memory); });
}

Status allocate_pinned(std::uint32_t device, std::uint64_t bytes, void** memory) {
  return on_device(device, [&] { return cudaHostAlloc(memory, bytes, cudaHostAllocPortable); });
}

void release_pinned(std::uint32_t device, void* memory) {
  on_device(device, [&] { return cudaFreeHost(memory); });
}

Status create_stream(std::uint32_t device, void** stream) {
  return on_device(device, [&] {
    return cudaStreamCreateWithFlags(reinterpret_cast<cudaStream_t*>(stream),
                                     cudaStreamNonBlocking);
  });
}

void destroy_stream(std::uint32_t device, void* stream) {
  on_device(device, [&] { return cudaStreamDestroy(stream_of(stream)); });
}

Status upload(std::uint32_t device, void* stream, void* to, const void* from, std::uint64_t bytes) {
  return on_device(device, [&] {
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(stream));
  });
}

Status download(std::uint32_t device, void* stream, void* to, const void* from,
                std::uint64_t bytes) {
  return on_device(device, [&] {
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(stream));
  });
}

Status launch_tiles(std::uint32_t device, void* stream, const TileLaunch* tiles) {
  return on_device(device, [&] { return launch(*tiles, stream_of(stream)); });
}

Status launch_rows(std::uint32_t device, void* stream, const RowsLaunch* rows) {
  return on_device(device, [&] { return launch(*rows, stream_of(stream)); });
}

Status launch_product(std::uint32_t device, void* stream, const ProductLaunch* product) {
  return on_device(device, [&] { return launch(*product, stream_of(stream)); });
}

Status wait(std::uint32_t device, void* stream) {
  return on_device(device, [&] { return cudaStreamSynchronize(stream_of(stream)); });
}

Status fetch(std::uint32_t device, void* to, const void* from, std::uint64_t bytes) {
  return on_device(device, [&] {
    const cudaError_t error =
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, cudaStreamPerThread);
    return error == cudaSuccess ? cudaStreamSynchronize(cudaStreamPerThread) : error;
  });
}

// Managed memory counts as that of its device, which reads it in place.
Status find_owner(std::uint32_t device, const void* memory, std::uint32_t* owner) {
  cudaPointerAttributes facts{};
  const Status status = on_device(device, [&] { return cudaPointerGetAttributes(&facts, memory); });
  const bool on_a_device =
      facts.type == cudaMemoryTypeDevice || facts.type == cudaMemoryTypeManaged;
  *owner = on_a_device ? static_cast<std::uint32_t>(facts.device) : kHostMemory;
  return status;
}

const char* last_error() { return last_failure(); }

constexpr Api kTable{count_devices,  describe,      allocate,       release, allocate_pinned,
                     release_pinned, create_stream, destroy_stream, upload,  download,
                     launch_tiles,   launch_rows,   launch_product, wait,    fetch,
                     find_owner,     last_error};

}  // namespace
}  // namespace ttrace::measure::cuda

std::uint32_t ttrace_cuda_interface_version() { return ttrace::measure::cuda::kInterfaceVersion; }
const char* ttrace_cuda_build_id() { return TTRACE_CUDA_BUILD_ID; }
const ttrace::measure::cuda::Api* ttrace_cuda_api() { return &ttrace::measure::cuda::kTable; }
