#include "devices.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/error.h"
#include "measure/cpu/cpu_backend.h"

namespace ttrace::library {
namespace {

namespace cuda = measure::cuda;

// One in this many bytes of the devices' memory is used: most of it belongs to the caller.
constexpr std::uint64_t kShareOfMemory = 8;
constexpr std::uint64_t kMostMemory = std::uint64_t{1} << 30;
constexpr const char* kWayOut = "; copy it to the CPU first";

template <typename Visit>
void for_each_on_device(const ttrace_run& run, Visit visit) {
  for (std::size_t i = 0; run.tensors != nullptr && i < run.count; ++i) {
    if (run.tensors[i].device_type == TTRACE_CUDA) visit(run.tensors[i]);
  }
}

std::set<std::uint32_t> devices_of(const ttrace_comparison& request) {
  std::set<std::uint32_t> used;
  const auto add = [&](const ttrace_tensor& tensor) {
    if (tensor.device_id >= 0) used.insert(static_cast<std::uint32_t>(tensor.device_id));
  };
  for_each_on_device(request.reference, add);
  for_each_on_device(request.candidate, add);
  for (std::size_t i = 0; request.noise != nullptr && i < request.noise_count; ++i) {
    for_each_on_device(request.noise[i], add);
  }
  return used;
}

}  // namespace

bool uses_devices(const ttrace_comparison& request) { return !devices_of(request).empty(); }

Devices::Devices(const ttrace_comparison& request) : used_(devices_of(request)) {
  if (!used_.empty()) open();
}

void Devices::open() {
  const std::string path = cuda::module_path();
  if (path.empty()) {
    problem_ = base::concat("there is no ", cuda::kModule,
                            " beside this library; it is built where CMake finds nvcc");
    return;
  }
  const cuda::OpenModule module = cuda::open_module(path);
  problem_ = module.problem;
  if (module.api == nullptr) return;
  found_ = cuda::find_devices(*module.api);
  problem_ = found_.problem;
  std::vector<std::uint32_t> there;
  std::uint64_t memory = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint32_t index : used_) {
    if (index >= found_.devices.size()) continue;  // require_memory() refuses its tensors
    there.push_back(index);
    memory = std::min(memory, found_.devices[index].memory_bytes);
  }
  if (there.empty()) return;
  api_ = module.api;
  cuda::PoolLimits limits;
  limits.device_bytes = std::min(memory / kShareOfMemory, kMostMemory);
  backend_ = std::make_unique<cuda::CudaBackend>(*api_, there, limits, measure::cpu_backend());
}

void Devices::require_memory(const ttrace_tensor& tensor) const {
  const std::string place = base::concat("it is on CUDA device ", tensor.device_id);
  if (tensor.device_id < 0) throw base::input_error(place, "; devices are counted from 0");
  if (!problem_.empty()) {
    throw base::input_error(place, ", which cannot be read: ", problem_, kWayOut);
  }
  const auto device = static_cast<std::uint32_t>(tensor.device_id);
  if (device >= found_.devices.size()) {
    throw base::input_error(place, ", and this machine has ",
                            cuda::describe_devices(found_.devices));
  }
  if (tensor.data == nullptr) return;  // no elements
  std::uint32_t owner = cuda::kHostMemory;
  if (api_->find_owner(device, tensor.data, &owner) != cuda::Status::kOk) {
    throw base::input_error(place, ", which cannot be read: ", api_->last_error(), kWayOut);
  }
  if (owner == device) return;
  throw base::input_error(
      "it is said to be on CUDA device ", device, ", but its data is memory of ",
      owner == cuda::kHostMemory ? std::string("the host") : base::concat("CUDA device ", owner));
}

void Devices::fetch(std::uint32_t device, std::span<const std::byte> from,
                    std::span<std::byte> to) const {
  backend_->fetch(device, from, to);
}

const measure::Backend& Devices::backend() const {
  if (backend_) return *backend_;
  return measure::cpu_backend();
}

}  // namespace ttrace::library
