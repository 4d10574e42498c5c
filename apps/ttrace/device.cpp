#include "device.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "measure/cuda/cublas.h"
#include "measure/cuda/cuda_backend.h"
#include "measure/cuda/module.h"

namespace ttrace::app {
namespace {

namespace cuda = measure::cuda;

constexpr std::uint64_t kLeastMemory = std::uint64_t{16} << 20;
constexpr std::uint64_t kMostByDefault = std::uint64_t{2} << 30;
constexpr std::string_view kCuda = "cuda";
constexpr const char* kAuto = "auto";

struct Asked {
  std::string device = kAuto;
  bool is_given = false;
  std::vector<std::uint32_t> indices;  // none: the CPU
  std::optional<std::uint64_t> memory;
};

Asked& asked() {
  static Asked flags;
  return flags;
}

// The numbers of "0,2", each once; nothing if it is something else.
std::optional<std::vector<std::uint32_t>> parse_indices(std::string_view text) {
  std::vector<std::uint32_t> indices;
  while (true) {
    std::uint32_t index = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
    const auto length = static_cast<std::size_t>(end - text.data());
    if (error != std::errc() || std::count(indices.begin(), indices.end(), index) > 0) return {};
    indices.push_back(index);
    if (length == text.size()) return indices;
    if (text[length] != ',') return {};
    text.remove_prefix(length + 1);
  }
}

std::optional<std::vector<std::uint32_t>> parse_device(std::string_view device) {
  if (device == kAuto || device == "cpu") return std::vector<std::uint32_t>();
  if (device == kCuda) return std::vector<std::uint32_t>{0};
  if (device.substr(0, kCuda.size() + 1) != "cuda:") return std::nullopt;
  return parse_indices(device.substr(kCuda.size() + 1));
}

std::unique_ptr<cuda::CudaBackend> open_cuda(const measure::Backend& cpu) {
  const std::string flag = "--device " + asked().device + ": ";
  constexpr const char* kWayOut = "; leave --device out to use the CPU";
  const std::string path = cuda::module_path();
  if (path.empty()) {
    throw base::usage_error(flag, "this build has no CUDA module (", cuda::kModule,
                            "), which is built where CMake finds nvcc", kWayOut);
  }
  const cuda::OpenModule module = cuda::open_module(path);
  if (module.api == nullptr) throw base::usage_error(flag, module.problem, kWayOut);
  const cuda::FoundDevices found = cuda::find_devices(*module.api);
  if (found.devices.empty()) throw base::usage_error(flag, found.problem, kWayOut);
  for (const std::uint32_t index : asked().indices) {
    if (index < found.devices.size()) continue;
    throw base::usage_error(flag, "there is no cuda:", index, "; this machine has ",
                            cuda::describe_devices(found.devices));
  }
  const std::uint64_t memory = found.devices[asked().indices.front()].memory_bytes;
  cuda::PoolLimits limits;
  limits.device_bytes = asked().memory.value_or(std::min(memory / 4, kMostByDefault));
  base::inform(base::concat("computing on ", cuda::describe_devices(found.devices)));
  auto backend = std::make_unique<cuda::CudaBackend>(*module.api, asked().indices, limits, cpu);
  // Like the backend, it is never destroyed.
  static auto* const cublas = new measure::cuda::Cublas(measure::cuda::cublas_places());
  backend->set_gemm(*cublas);
  return backend;
}

// The CPU, with the reason why `auto` took it.
class ChosenCpu : public measure::Backend {
 public:
  ChosenCpu(const measure::Backend& cpu, std::string reason)
      : cpu_(cpu), reason_(std::move(reason)) {}

  std::string name() const override { return cpu_.name(); }
  std::string instruction_set() const override { return cpu_.instruction_set(); }
  std::string remarks() const override { return reason_; }
  std::unique_ptr<measure::Batch> new_batch() const override { return cpu_.new_batch(); }

 private:
  const measure::Backend& cpu_;
  std::string reason_;
};

std::string gigabytes(double bytes) {
  return base::concat(static_cast<std::uint64_t>(bytes / 1e9), " GB/s");
}

// Every byte of a file is read by a thread of the CPU, which can then add it up or copy it for a
// device.
std::string why_cpu(const cuda::Costs& costs) {
  return base::concat("auto took the CPU: a thread adds up ", gigabytes(costs.cpu_summed_bytes),
                      " of a file, and would copy ", gigabytes(costs.staged_bytes),
                      " of it for a device");
}

}  // namespace

void choose_device(const std::string& device) {
  const auto indices = parse_device(device);
  if (!indices) {
    throw base::usage_error("--device ", base::printable(device),
                            ": write auto, cpu, cuda, or cuda: with the numbers of devices, as in "
                            "cuda:0 or cuda:0,1");
  }
  asked().device = device;
  asked().is_given = true;
  asked().indices = *indices;
}

void limit_device_memory(const std::string& size) {
  const auto bytes = base::parse_bytes(size);
  if (!bytes) {
    throw base::usage_error("--device-memory ", base::printable(size),
                            ": not a size; write it as in 500M or 2G");
  }
  if (*bytes < kLeastMemory) {
    throw base::usage_error("--device-memory ", base::printable(size), ": at least 16M are needed");
  }
  asked().memory = *bytes;
}

const measure::Backend& chosen_backend(const measure::Backend& cpu) {
  constexpr cuda::Costs kCosts;
  static_assert(!kCosts.files_pay(), "auto has to look for a device");
  if (asked().device == kAuto && asked().is_given) {
    static const ChosenCpu chosen(cpu, why_cpu(kCosts));
    return chosen;
  }
  if (asked().indices.empty()) return cpu;
  // Never destroyed: threads of the CUDA runtime may outlive static objects.
  static const measure::Backend* const opened = open_cuda(cpu).release();
  return *opened;
}

std::string describe_cuda_module() {
  return cuda::module_path().empty() ? "no module (it is built where CMake finds nvcc)"
                                     : cuda::kModule;
}

}  // namespace ttrace::app
