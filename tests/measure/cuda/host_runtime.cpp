#include "measure/cuda/host_runtime.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <vector>

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
    case TileArithmetic::kTriples:
      return [&launch](HostExecution& execution) { sum_triples(execution, launch); };
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

namespace {

using Stream = std::vector<std::function<void()>>;

struct State {
  std::mutex mutex;
  HostRuntime settings;
  HostRuntimeCounts counts;
  std::map<void*, std::pair<std::uint32_t, std::uint64_t>> device_memory;
  std::map<std::uint32_t, std::uint64_t> used;  // bytes by device
  std::map<std::uint32_t, std::uint64_t> operations;
};

State& state() {
  static State one;
  return one;
}

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

void count_launch(std::uint32_t device, std::uint64_t tiles) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  static std::set<std::uint32_t> used;
  if (s.counts.launches == 0) used.clear();
  used.insert(device);
  s.counts.devices_used = static_cast<std::uint32_t>(used.size());
  ++s.counts.launches;
  s.counts.tiles += tiles;
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
  *memory = std::malloc(bytes);
  s.used[device] += bytes;
  s.device_memory[*memory] = {device, bytes};
  ++s.counts.allocations;
  s.counts.most_bytes = std::max(s.counts.most_bytes, s.used[device]);
  return Status::kOk;
}

void release(std::uint32_t device, void* memory) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto found = s.device_memory.find(memory);
  if (found == s.device_memory.end() || found->second.first != device) std::abort();
  s.used[device] -= found->second.second;
  s.device_memory.erase(found);
  --s.counts.allocations;
  std::free(memory);
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
  count_launch(device, launch->tiles);
  return queue(device, stream, [copied = *launch] { run_and_note(copied); });
}

Status launch_rows(std::uint32_t device, void* stream, const RowsLaunch* launch) {
  count_launch(device, 0);
  return queue(device, stream, [copied = *launch] { run_and_note(copied); });
}

Status wait(std::uint32_t device, void* stream) {
  if (const Status status = operation(device); status != Status::kOk) return status;
  Stream& queued = *static_cast<Stream*>(stream);
  for (const auto& work : queued) work();
  queued.clear();
  return Status::kOk;
}

const char* last_error() { return "the host device has fallen off the bus"; }

constexpr Api kTable{count_devices,  describe,      allocate,       release,   allocate_pinned,
                     release_pinned, create_stream, destroy_stream, upload,    download,
                     launch_tiles,   launch_rows,   wait,           last_error};

}  // namespace

const Api& host_runtime(const HostRuntime& settings) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.settings = settings;
  s.counts = {};
  s.operations.clear();
  return kTable;
}

HostRuntimeCounts host_runtime_counts() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.counts;
}

}  // namespace ttrace::test
