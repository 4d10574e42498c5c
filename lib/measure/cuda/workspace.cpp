#include "measure/cuda/workspace.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace ttrace::measure::cuda {
namespace {

// Smaller ones would launch kernels for a few tiles each.
constexpr std::uint64_t kLeastWorkspaceBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kBytesPerResult = 1024;

}  // namespace

std::uint64_t Workspace::most_results(std::uint64_t bytes) { return bytes / kBytesPerResult; }

std::uint64_t Workspace::device_bytes(std::uint64_t bytes) {
  return bytes + most_results(bytes) * sizeof(TileResult);
}

Status Workspace::create(const Api& api, std::uint32_t device, std::uint64_t bytes,
                         std::unique_ptr<Workspace>& workspace) {
  std::unique_ptr<Workspace> made(new Workspace(api, device, bytes));
  const std::uint64_t all = device_bytes(bytes);
  void* host = nullptr;
  void* memory = nullptr;
  Status status = api.allocate_pinned(device, all, &host);
  made->inputs_ = static_cast<std::byte*>(host);
  if (status == Status::kOk) status = api.allocate(device, all, &memory);
  made->device_inputs_ = static_cast<std::byte*>(memory);
  if (status == Status::kOk) status = api.create_stream(device, &made->stream_);
  if (status != Status::kOk) {
    made->note(status);
    if (status != Status::kOutOfMemory) workspace = std::move(made);  // says why
    return status;
  }
  made->results_ = reinterpret_cast<TileResult*>(made->inputs_ + bytes);
  made->device_results_ = reinterpret_cast<TileResult*>(made->device_inputs_ + bytes);
  workspace = std::move(made);
  return status;
}

Workspace::~Workspace() {
  if (stream_ != nullptr) api_.destroy_stream(device_, stream_);
  if (device_inputs_ != nullptr) api_.release(device_, device_inputs_);
  if (inputs_ != nullptr) api_.release_pinned(device_, inputs_);
}

void Workspace::note(Status status) {
  if (status_ != Status::kOk || status == Status::kOk) return;
  status_ = status;
  failure_ = api_.last_error();
}

void Workspace::upload(std::uint64_t bytes) {
  if (status_ != Status::kOk) return;
  note(api_.upload(device_, stream_, device_inputs_, inputs_, bytes));
}

void Workspace::download_inputs(std::span<const std::byte> inputs) {
  if (status_ != Status::kOk) return;
  std::byte* const to = inputs_ + (inputs.data() - inputs_);
  note(api_.download(device_, stream_, to, on_device(to), inputs.size()));
}

void Workspace::download_results(std::uint64_t count) {
  if (status_ != Status::kOk) return;
  note(api_.download(device_, stream_, results_, device_results_, count * sizeof(TileResult)));
}

void Workspace::upload_to(void* to, std::uint64_t bytes) {
  if (status_ == Status::kOk) note(api_.upload(device_, stream_, to, inputs_, bytes));
}

void Workspace::download_from(const void* from, std::uint64_t bytes) {
  if (status_ == Status::kOk) note(api_.download(device_, stream_, inputs_, from, bytes));
}

void Workspace::launch(const TileLaunch& launch) {
  if (status_ == Status::kOk) note(api_.launch_tiles(device_, stream_, &launch));
}

void Workspace::launch(const RowsLaunch& launch) {
  if (status_ == Status::kOk) note(api_.launch_rows(device_, stream_, &launch));
}

void Workspace::launch(const ProductLaunch& launch) {
  if (status_ == Status::kOk) note(api_.launch_product(device_, stream_, &launch));
}

void Workspace::wait() {
  if (status_ == Status::kOk) note(api_.wait(device_, stream_));
}

WorkspacePool::WorkspacePool(const Api& api, const std::vector<std::uint32_t>& devices,
                             PoolLimits limits)
    : api_(api), limits_(limits), bytes_(std::max(limits.workspace_bytes, kLeastWorkspaceBytes)) {
  for (const std::uint32_t index : devices) devices_.emplace_back().index = index;
}

WorkspacePool::~WorkspacePool() = default;

WorkspacePool::Device& WorkspacePool::device(std::uint32_t index) {
  return *std::find_if(devices_.begin(), devices_.end(),
                       [&](const Device& device) { return device.index == index; });
}

std::unique_ptr<Workspace> WorkspacePool::create(Device& device) {
  while (true) {
    const std::uint64_t bytes = Workspace::device_bytes(bytes_);
    Status status = Status::kOutOfMemory;
    std::unique_ptr<Workspace> made;
    if (device.bytes + bytes <= limits_.device_bytes) {
      status = Workspace::create(api_, device.index, bytes_, made);
    } else if (device.bytes > 0) {
      return nullptr;  // the bound is reached
    }
    if (status == Status::kOk) {
      device.bytes += bytes;
      return made;
    }
    if (status != Status::kOutOfMemory) {
      device.lost = true;
      device.failure = made->failure();
      return nullptr;
    }
    out_of_memory_ = true;
    // Smaller ones only as long as there is none at all.
    if (device.bytes > 0 || bytes_ / 2 < kLeastWorkspaceBytes) return nullptr;
    bytes_ /= 2;
  }
}

std::unique_ptr<Workspace> WorkspacePool::acquire(std::optional<std::uint32_t> on) {
  const std::lock_guard lock(mutex_);
  for (std::size_t tried = 0; tried < devices_.size(); ++tried) {
    Device& device = devices_[next_];
    next_ = (next_ + 1) % devices_.size();
    if (device.lost || (on && *on != device.index)) continue;
    if (!device.idle.empty()) {
      std::unique_ptr<Workspace> workspace = std::move(device.idle.back());
      device.idle.pop_back();
      return workspace;
    }
    if (auto workspace = create(device)) return workspace;
  }
  return nullptr;
}

void WorkspacePool::give_back(std::unique_ptr<Workspace> workspace) {
  const std::lock_guard lock(mutex_);
  Device& of = device(workspace->device());
  if (workspace->status() == Status::kOk) {
    of.idle.push_back(std::move(workspace));
    return;
  }
  if (!of.lost) of.failure = workspace->failure();
  of.lost = true;
  of.idle.clear();
}

std::span<std::byte> WorkspacePool::take_memory(std::uint32_t index, std::uint64_t wanted,
                                                std::uint64_t least) {
  const std::lock_guard lock(mutex_);
  Device& from = device(index);
  const auto room = [&] {
    return limits_.device_bytes - std::min(limits_.device_bytes, from.bytes);
  };
  while (room() < wanted && !from.idle.empty()) {
    from.bytes -= Workspace::device_bytes(from.idle.back()->inputs().size());
    from.idle.pop_back();
  }
  wanted = std::max(wanted, least);
  for (std::uint64_t bytes = std::min(wanted, room()); bytes >= least && !from.lost; bytes /= 2) {
    void* memory = nullptr;
    const Status status = api_.allocate(index, bytes, &memory);
    if (status == Status::kOk) {
      from.bytes += bytes;
      return {static_cast<std::byte*>(memory), bytes};
    }
    if (status == Status::kOutOfMemory) {
      out_of_memory_ = true;
      continue;
    }
    from.lost = true;
    from.failure = api_.last_error();
  }
  return {};
}

void WorkspacePool::return_memory(std::uint32_t index, std::span<std::byte> memory) {
  api_.release(index, memory.data());
  const std::lock_guard lock(mutex_);
  device(index).bytes -= memory.size();
}

void WorkspacePool::count_refused() {
  const std::lock_guard lock(mutex_);
  ++refused_;
}

void WorkspacePool::count_redone(std::uint64_t runs) {
  const std::lock_guard lock(mutex_);
  redone_ += runs;
}

bool WorkspacePool::has(std::uint32_t index) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(devices_.begin(), devices_.end(),
                     [&](const Device& device) { return device.index == index && !device.lost; });
}

void WorkspacePool::fetch(std::uint32_t device, std::span<const std::byte> from,
                          std::span<std::byte> to) {
  if (from.empty()) return;
  if (api_.fetch(device, to.data(), from.data(), from.size()) != Status::kOk) {
    throw base::input_error("values in the memory of cuda:", device, " cannot be read (",
                            api_.last_error(), "); compare again in a new process");
  }
  const std::lock_guard lock(mutex_);
  ++fetched_;
  fetched_bytes_ += from.size();
}

std::string WorkspacePool::remarks() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  const auto add = [&](const std::string& remark) { text += (text.empty() ? "" : "; ") + remark; };
  for (const Device& device : devices_) {
    if (!device.lost) continue;
    add(base::concat("cuda:", device.index, " was lost (", device.failure, ")"));
  }
  if (redone_ > 0) add(base::concat(base::plural(redone_, "piece"), " of work redone on the CPU"));
  if (refused_ > 0) {
    add(base::concat(base::plural(refused_, "request"), " computed on the CPU",
                     out_of_memory_ ? ": device memory ran out" : ""));
  } else if (out_of_memory_) {
    add(base::concat("device memory ran out: batches of ", base::human_bytes(bytes_)));
  }
  if (fetched_ > 0) {
    add(base::concat(base::human_bytes(fetched_bytes_),
                     " of values on devices copied to the host (", base::plural(fetched_, "read"),
                     ")"));
  }
  return text;
}

}  // namespace ttrace::measure::cuda
