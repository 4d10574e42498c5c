// Memory and a stream of one device, and the pool that lends them out: all workspaces together stay
// below a bound, get smaller where memory runs out, and are not made on a device that was lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "measure/cuda/api.h"

namespace ttrace::measure::cuda {

// A pinned host buffer for inputs and one of the same size on the device, and room for results on
// both. Offsets in one buffer are offsets in the other.
class Workspace {
 public:
  // Sets `workspace` if all of its memory could be had.
  static Status create(const Api& api, std::uint32_t device, std::uint64_t bytes,
                       std::unique_ptr<Workspace>& workspace);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  // Bytes on the device for `bytes` of inputs.
  static std::uint64_t device_bytes(std::uint64_t bytes);
  // Results that fit beside `bytes` of inputs.
  static std::uint64_t most_results(std::uint64_t bytes);

  std::uint32_t device() const { return device_; }
  void* stream() const { return stream_; }
  std::span<std::byte> inputs() const { return {inputs_, bytes_}; }
  std::span<TileResult> results() const { return {results_, most_results(bytes_)}; }
  // The address on the device of a part of inputs().
  template <typename T>
  T* on_device(T* input) const {
    const auto offset = reinterpret_cast<const std::byte*>(input) - inputs_;
    return reinterpret_cast<T*>(device_inputs_ + offset);
  }
  TileResult* device_results() const { return device_results_; }

  // Queue on the stream. The first failure is kept: nothing is queued after it.
  void upload(std::uint64_t bytes);                         // the first `bytes` of inputs()
  void download_inputs(std::span<const std::byte> inputs);  // a part of inputs()
  void download_results(std::uint64_t count);               // the first `count`
  // The first `bytes` of inputs(), to and from other memory of the device.
  void upload_to(void* to, std::uint64_t bytes);
  void download_from(const void* from, std::uint64_t bytes);
  void launch(const TileLaunch& launch);
  void launch(const RowsLaunch& launch);
  void launch(const ProductLaunch& launch);
  void wait();

  // The first failure since it was created, else kOk.
  Status status() const { return status_; }
  const std::string& failure() const { return failure_; }

 private:
  Workspace(const Api& api, std::uint32_t device, std::uint64_t bytes)
      : api_(api), device_(device), bytes_(bytes) {}
  void note(Status status);

  const Api& api_;
  std::uint32_t device_;
  std::uint64_t bytes_;
  std::byte* inputs_ = nullptr;
  TileResult* results_ = nullptr;
  std::byte* device_inputs_ = nullptr;
  TileResult* device_results_ = nullptr;
  void* stream_ = nullptr;
  Status status_ = Status::kOk;
  std::string failure_;
};

struct PoolLimits {
  std::uint64_t device_bytes = std::uint64_t{1} << 30;     // of all workspaces of one device
  std::uint64_t workspace_bytes = std::uint64_t{8} << 20;  // inputs of one, to begin with
};

// Its members may be called from several threads.
class WorkspacePool {
 public:
  WorkspacePool(const Api& api, const std::vector<std::uint32_t>& devices, PoolLimits limits);
  ~WorkspacePool();

  // Returns an idle or a new workspace, of `on` or else of the devices in turn; nothing if none can
  // be had now.
  std::unique_ptr<Workspace> acquire(std::optional<std::uint32_t> on = std::nullopt);
  // Takes one back. Its device is lost if an operation has failed.
  void give_back(std::unique_ptr<Workspace> workspace);
  // Returns memory of a device beside its workspaces, below the same bound: as much as is wanted,
  // or what can be had, but at least `least` bytes, or none. Idle workspaces make room for it.
  std::span<std::byte> take_memory(std::uint32_t device, std::uint64_t wanted, std::uint64_t least);
  void return_memory(std::uint32_t device, std::span<std::byte> memory);
  // Counts requests that went to the CPU because no workspace could be had, and those of which a
  // part was computed again there.
  void count_refused();
  void count_redone(std::uint64_t runs);

  // Whether `index` is one of the devices, and not lost.
  bool has(std::uint32_t index) const;
  // Copies values from the memory of any device to the host, and counts them. Throws an input error
  // if that fails.
  void fetch(std::uint32_t device, std::span<const std::byte> from, std::span<std::byte> to);

  // What did not run on a device, and why; empty if all did.
  std::string remarks() const;

 private:
  struct Device {
    std::uint32_t index = 0;
    std::uint64_t bytes = 0;  // of its workspaces
    std::vector<std::unique_ptr<Workspace>> idle;
    bool lost = false;
    std::string failure;
  };
  Device& device(std::uint32_t index);
  std::unique_ptr<Workspace> create(Device& device);

  const Api& api_;
  PoolLimits limits_;
  mutable std::mutex mutex_;
  std::vector<Device> devices_;
  std::size_t next_ = 0;
  std::uint64_t bytes_;  // of a new workspace
  bool out_of_memory_ = false;
  std::uint64_t refused_ = 0;
  std::uint64_t redone_ = 0;
  std::uint64_t fetched_ = 0;
  std::uint64_t fetched_bytes_ = 0;
};

}  // namespace ttrace::measure::cuda
