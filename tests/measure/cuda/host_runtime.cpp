#include "measure/cuda/host_runtime.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "measure/cuda/kernels/products.h"
#include "measure/cuda/kernels/rows.h"
#include "measure/cuda/kernels/tiles.h"
#include "measure/cuda/kernels/updates.h"

namespace ttrace::test {

using namespace measure::cuda;

namespace {

template <typename Tile>
HostKernel pairs_of(const TileLaunch& launch) {
  return [&launch](HostExecution& execution) { sum_pairs<Tile>(execution, launch); };
}

HostKernel stored_kernel(const TileLaunch& launch) {
  switch (launch.dtype) {
    case tensor::DType::kFloat64:
      return pairs_of<StoredTile<StoredF64>>(launch);
    case tensor::DType::kFloat32:
      return pairs_of<StoredTile<StoredF32>>(launch);
    case tensor::DType::kFloat16:
      return pairs_of<StoredTile<StoredF16>>(launch);
    case tensor::DType::kBFloat16:
      return pairs_of<StoredTile<StoredBF16>>(launch);
    case tensor::DType::kFloat8E4M3:
      return pairs_of<StoredTile<StoredF8E4M3>>(launch);
    case tensor::DType::kFloat8E5M2:
      return pairs_of<StoredTile<StoredF8E5M2>>(launch);
    default:
      return pairs_of<NumbersTile>(launch);
  }
}

HostKernel kernel_of(const TileLaunch& launch) {
  switch (launch.arithmetic) {
    case TileArithmetic::kStored:
      return stored_kernel(launch);
    case TileArithmetic::kNumbers:
      return pairs_of<NumbersTile>(launch);
    case TileArithmetic::kIntegers:
      return [&launch](HostExecution& execution) { sum_integers(execution, launch); };
    case TileArithmetic::kUpdates:
      return [&launch](HostExecution& execution) { judge_updates(execution, launch); };
  }
  return {};
}

}  // namespace

Mistakes run_on_host(const TileLaunch& launch) {
  constexpr std::uint32_t kWarps = 2;
  return run_grid((launch.tiles + kWarps - 1) / kWarps, kWarps * kWarp, kernel_of(launch));
}

Mistakes run_on_host(const RowsLaunch& launch) {
  std::uint64_t sums = 1;
  if (launch.input.bits != nullptr) {
    sums += 2 * std::uint64_t{launch.norms};
    const Mistakes mistakes =
        run_grid((launch.rows + kWarp - 1) / kWarp, kWarp,
                 [&](HostExecution& execution) { row_moments(execution, launch); });
    if (!mistakes.empty()) return mistakes;
  }
  constexpr std::uint32_t kThreads = 64;
  return run_grid((sums * launch.length + kThreads - 1) / kThreads, kThreads,
                  [&](HostExecution& execution) { sum_rows(execution, launch); });
}

Mistakes run_on_host(const ProductLaunch& launch) {
  return run_grid(product_blocks(launch), kProductThreads, [&](HostExecution& execution) {
    launch.exact_products ? multiply_blocks<true>(execution, launch)
                          : multiply_blocks<false>(execution, launch);
  });
}

namespace {

using Stream = std::vector<std::function<void()>>;

struct Allocation {
  std::uint32_t device = 0;
  std::uint64_t bytes = 0;
  bool guarded = false;
};

struct State {
  std::mutex mutex;
  HostRuntime settings;
  HostRuntimeCounts counts;
  std::map<void*, Allocation> device_memory;
  std::uint32_t running = 0;                    // threads in which a device works
  std::map<std::uint32_t, std::uint64_t> used;  // bytes by device
  std::map<std::uint32_t, std::uint64_t> operations;
};

State& state() {
  static State one;
  return one;
}

std::uint64_t whole_pages(std::uint64_t bytes) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

void* new_memory(std::uint64_t bytes, bool guarded, bool accessible) {
  if (!guarded) return std::malloc(bytes);
  const int access = accessible ? PROT_READ | PROT_WRITE : PROT_NONE;
  void* const memory =
      ::mmap(nullptr, whole_pages(bytes), access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return memory;
}

void free_memory(void* memory, const Allocation& allocation) {
  allocation.guarded ? static_cast<void>(::munmap(memory, whole_pages(allocation.bytes)))
                     : std::free(memory);
}

// While one lives, a device works in this thread, and guarded memory can be touched.
class Running {
 public:
  Running() {
    const std::lock_guard lock(state().mutex);
    if (state().running++ == 0) allow(PROT_READ | PROT_WRITE);
  }
  ~Running() {
    const std::lock_guard lock(state().mutex);
    if (--state().running == 0) allow(PROT_NONE);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  static void allow(int access) {
    for (const auto& [memory, allocation] : state().device_memory) {
      if (!allocation.guarded) continue;
      if (::mprotect(memory, whole_pages(allocation.bytes), access) != 0) std::abort();
    }
  }
};

// Counts an operation; a lost device refuses.
Status operation(std::uint32_t device) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const std::uint64_t n = ++s.operations[device];
  return device == s.settings.lost && n > s.settings.lost_after ? Status::kFailed : Status::kOk;
}

Status queue(std::uint32_t device, void* stream, std::function<void()> work) {
  const Status status = operation(device);
  if (status == Status::kOk) static_cast<Stream*>(stream)->push_back(std::move(work));
  return status;
}

void note(const std::string& mistake) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.counts.mistakes.push_back(mistake);
}

template <typename Launch>
void run_and_note(const Launch& launch) {
  for (const std::string& mistake : run_on_host(launch)) note(mistake);
}

// Counts a launch; a device may refuse.
Status count_launch(std::uint32_t device, std::uint64_t tiles) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  static std::set<std::uint32_t> used;
  if (s.counts.launches == 0) used.clear();
  used.insert(device);
  s.counts.devices_used = static_cast<std::uint32_t>(used.size());
  ++s.counts.launches;
  s.counts.tiles += tiles;
  const bool refuses =
      device == s.settings.lost && s.counts.launches > s.settings.launches_lost_after;
  return refuses ? Status::kFailed : Status::kOk;
}

Status count_devices(std::uint32_t* count) {
  *count = state().settings.devices;
  return *count > 0 ? Status::kOk : Status::kNoDevice;
}

Status describe(std::uint32_t device, DeviceInfo* info) {
  std::snprintf(info->name, sizeof info->name, "host %u", device);
  info->capability = 90;
  info->memory_bytes = state().settings.device_bytes;
  return Status::kOk;
}

Status allocate(std::uint32_t device, std::uint64_t bytes, void** memory) {
  if (const Status status = operation(device); status != Status::kOk) return status;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.used[device] + bytes > s.settings.device_bytes) return Status::kOutOfMemory;
  *memory = new_memory(bytes, s.settings.guarded, s.running > 0);
  s.used[device] += bytes;
  s.device_memory[*memory] = {device, bytes, s.settings.guarded};
  ++s.counts.allocations;
  s.counts.most_bytes = std::max(s.counts.most_bytes, s.used[device]);
  return Status::kOk;
}

void release(std::uint32_t device, void* memory) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto found = s.device_memory.find(memory);
  if (found == s.device_memory.end() || found->second.device != device) std::abort();
  s.used[device] -= found->second.bytes;
  free_memory(memory, found->second);
  s.device_memory.erase(found);
  --s.counts.allocations;
}

Status allocate_pinned(std::uint32_t device, std::uint64_t bytes, void** memory) {
  if (const Status status = operation(device); status != Status::kOk) return status;
  if (bytes > state().settings.largest_pinned) return Status::kOutOfMemory;
  *memory = std::malloc(bytes);
  return Status::kOk;
}

void release_pinned(std::uint32_t, void* memory) { std::free(memory); }

Status create_stream(std::uint32_t device, void** stream) {
  if (const Status status = operation(device); status != Status::kOk) return status;
  *stream = new Stream;
  return Status::kOk;
}

void destroy_stream(std::uint32_t, void* stream) { delete static_cast<Stream*>(stream); }

// The source of a copy must stay as it is until the copy is made, at any time before wait()
// returns.
Status upload(std::uint32_t device, void* stream, void* to, const void* from, std::uint64_t bytes) {
  std::vector<std::byte> at_first(bytes);
  std::memcpy(at_first.data(), from, bytes);
  return queue(device, stream, [=, at_first = std::move(at_first)] {
    if (std::memcmp(at_first.data(), from, bytes) != 0) {
      note("an input was changed while it was copied");
    }
    std::memcpy(to, from, bytes);
  });
}

Status download(std::uint32_t device, void* stream, void* to, const void* from,
                std::uint64_t bytes) {
  return queue(device, stream, [=] { std::memcpy(to, from, bytes); });
}

Status launch_tiles(std::uint32_t device, void* stream, const TileLaunch* launch) {
  const Status status = count_launch(device, launch->tiles);
  if (status != Status::kOk) return status;
  return queue(device, stream, [copied = *launch] { run_and_note(copied); });
}

Status launch_rows(std::uint32_t device, void* stream, const RowsLaunch* launch) {
  const Status status = count_launch(device, 0);
  if (status != Status::kOk) return status;
  return queue(device, stream, [copied = *launch] { run_and_note(copied); });
}

Status launch_product(std::uint32_t device, void* stream, const ProductLaunch* launch) {
  const Status status = count_launch(device, 0);
  if (status != Status::kOk) return status;
  {
    const std::lock_guard lock(state().mutex);
    ++state().counts.products;
  }
  return queue(device, stream, [copied = *launch] { run_and_note(copied); });
}

Status wait(std::uint32_t device, void* stream) {
  if (const Status status = operation(device); status != Status::kOk) return status;
  Stream& queued = *static_cast<Stream*>(stream);
  const Running running;
  for (const auto& work : queued) work();
  queued.clear();
  return Status::kOk;
}

Status fetch(std::uint32_t device, void* to, const void* from, std::uint64_t bytes) {
  if (const Status status = operation(device); status != Status::kOk) return status;
  {
    const std::lock_guard lock(state().mutex);
    ++state().counts.fetches;
  }
  const Running running;
  std::memcpy(to, from, bytes);
  return Status::kOk;
}

Status find_owner(std::uint32_t, const void* memory, std::uint32_t* owner) {
  const State& s = state();
  const std::lock_guard lock(state().mutex);
  *owner = kHostMemory;
  for (const auto& [start, allocation] : s.device_memory) {
    const auto* const first = static_cast<const std::byte*>(start);
    const auto* const at = static_cast<const std::byte*>(memory);
    if (at >= first && at < first + allocation.bytes) *owner = allocation.device;
  }
  return Status::kOk;
}

const char* last_error() { return "the host device has fallen off the bus"; }

constexpr Api kTable{count_devices,  describe,      allocate,       release, allocate_pinned,
                     release_pinned, create_stream, destroy_stream, upload,  download,
                     launch_tiles,   launch_rows,   launch_product, wait,    fetch,
                     find_owner,     last_error};

}  // namespace

const Api& host_runtime(const HostRuntime& settings) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.settings = settings;
  s.counts = {};
  s.operations.clear();
  return kTable;
}

void* new_device_memory(std::uint32_t device, std::span<const std::byte> bytes) {
  void* memory = nullptr;
  if (allocate(device, bytes.size() + 1, &memory) != Status::kOk) return nullptr;
  const Running running;
  if (!bytes.empty()) std::memcpy(memory, bytes.data(), bytes.size());
  return memory;
}

HostRuntimeCounts host_runtime_counts() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.counts;
}

}  // namespace ttrace::test
