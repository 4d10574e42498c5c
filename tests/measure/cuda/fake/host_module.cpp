// A module that belongs to this build, whose devices are those of host_runtime.h: the whole program
// runs with --device cuda on a machine without a GPU. The environment says how it behaves:
// TTRACE_FAKE_DEVICES (2), TTRACE_FAKE_PROBLEM (a number of Status that counting devices gives),
// TTRACE_FAKE_BYTES (memory of a device), TTRACE_FAKE_LOST_AFTER (operations of cuda:0),
// TTRACE_FAKE_LAUNCHES_LOST_AFTER (launches of cuda:0), TTRACE_FAKE_GUARDED (1: the host may not
// touch the memory of a device).
#include <cstdlib>
#include <string>

#include "measure/cuda/host_runtime.h"

namespace {

using namespace ttrace::measure::cuda;

std::uint64_t number_of(const char* variable, std::uint64_t otherwise) {
  const char* given = std::getenv(variable);
  return given == nullptr ? otherwise : std::stoull(given);
}

Status refuse(std::uint32_t*) { return static_cast<Status>(number_of("TTRACE_FAKE_PROBLEM", 0)); }

}  // namespace

// For tests that have no table: memory of a device with a copy of `size` bytes. It is never
// released.
extern "C" [[gnu::visibility("default")]] void* ttrace_fake_device_memory(std::uint32_t device,
                                                                          const void* bytes,
                                                                          std::uint64_t size);

void* ttrace_fake_device_memory(std::uint32_t device, const void* bytes, std::uint64_t size) {
  return ttrace::test::new_device_memory(device, {static_cast<const std::byte*>(bytes), size});
}

std::uint32_t ttrace_cuda_interface_version() { return kInterfaceVersion; }
const char* ttrace_cuda_build_id() { return TTRACE_CUDA_BUILD_ID; }

const Api* ttrace_cuda_api() {
  ttrace::test::HostRuntime settings;
  settings.devices = static_cast<std::uint32_t>(number_of("TTRACE_FAKE_DEVICES", 2));
  settings.device_bytes = number_of("TTRACE_FAKE_BYTES", settings.device_bytes);
  settings.lost_after = number_of("TTRACE_FAKE_LOST_AFTER", settings.lost_after);
  settings.launches_lost_after =
      number_of("TTRACE_FAKE_LAUNCHES_LOST_AFTER", settings.launches_lost_after);
  settings.guarded = number_of("TTRACE_FAKE_GUARDED", 0) != 0;
  static Api table;
  table = ttrace::test::host_runtime(settings);
  if (number_of("TTRACE_FAKE_PROBLEM", 0) != 0) table.count_devices = refuse;
  return &table;
}
