// A CUDA runtime on the host: "device" memory is ordinary memory, the kernels run by
// host_execution.h, and nothing that is queued on a stream happens before wait(), as late as a real
// device may do it. Tests make it fail: out of memory, a device lost in the middle.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "measure/cuda/api.h"
#include "measure/cuda/host_execution.h"

namespace ttrace::test {

// What the runtime is asked to be; set before use, by host_runtime().
struct HostRuntime {
  std::uint32_t devices = 1;
  std::uint64_t device_bytes = std::uint64_t{1} << 30;  // allocations beyond it fail
  std::uint64_t largest_pinned = std::numeric_limits<std::uint64_t>::max();
  // The device `lost` fails from its n-th operation on.
  std::uint32_t lost = 0;
  std::uint64_t lost_after = std::numeric_limits<std::uint64_t>::max();
  // From its n-th launch on it refuses launches, and does everything else.
  std::uint64_t launches_lost_after = std::numeric_limits<std::uint64_t>::max();
  // Device memory cannot be touched but by what runs on a device: the program crashes where the
  // host does.
  bool guarded = false;
};

// What has happened since host_runtime() was called.
struct HostRuntimeCounts {
  std::uint64_t allocations = 0;  // alive
  std::uint64_t most_bytes = 0;   // of one device
  std::uint64_t launches = 0;
  std::uint64_t products = 0;  // launches of products of matrices
  std::uint64_t tiles = 0;
  std::uint32_t devices_used = 0;
  std::uint64_t fetches = 0;
  Mistakes mistakes;
};

// Starts afresh with these settings and returns the table.
const measure::cuda::Api& host_runtime(const HostRuntime& settings);
HostRuntimeCounts host_runtime_counts();

// Returns new memory of a device with a copy of these bytes; null if it has not so much. The table
// releases it.
void* new_device_memory(std::uint32_t device, std::span<const std::byte> bytes);

// The kernels on host memory.
Mistakes run_on_host(const measure::cuda::TileLaunch& launch);
Mistakes run_on_host(const measure::cuda::RowsLaunch& launch);
Mistakes run_on_host(const measure::cuda::ProductLaunch& launch);

}  // namespace ttrace::test
