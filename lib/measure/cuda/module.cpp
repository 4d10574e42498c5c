#include "measure/cuda/module.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <filesystem>

#include "base/text.h"

namespace ttrace::measure::cuda {
namespace {

namespace fs = std::filesystem;
using base::concat;

template <typename Function>
Function* symbol(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

constexpr const char* kInterfaceSymbol = "ttrace_cuda_interface_version";
constexpr const char* kBuildSymbol = "ttrace_cuda_build_id";
constexpr const char* kTableSymbol = "ttrace_cuda_api";
constexpr const char* kWayOut = "; build it again together with ttrace";

}  // namespace

namespace {

// The file that this code was loaded from: the program, or a library such as libttrace.so.
fs::path this_file(std::error_code& error) {
  Dl_info symbol{};
  void* found = nullptr;
  const auto* const here = reinterpret_cast<const void*>(&open_module);
  if (::dladdr1(here, &symbol, &found, RTLD_DL_LINKMAP) != 0 && found != nullptr) {
    const char* const name = static_cast<const link_map*>(found)->l_name;
    if (*name != '\0') return fs::canonical(name, error);  // the program has none
  }
  return fs::read_symlink("/proc/self/exe", error);
}

}  // namespace

std::string module_path() {
  if (const char* given = std::getenv(kModuleVariable); given != nullptr && *given != '\0') {
    return given;
  }
  std::error_code error;
  const fs::path folder = this_file(error).parent_path();
  for (const fs::path& path : {folder / kModule, folder.parent_path() / "lib" / kModule}) {
    if (!error && fs::exists(path, error)) return path.string();
  }
  return {};
}

OpenModule open_module(const std::string& path) {
  const auto refuse = [&](const std::string& reason) {
    return OpenModule{nullptr, concat(base::printable(path), " ", reason)};
  };
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return refuse(concat("cannot be loaded: ", ::dlerror()));
  for (const char* name : {kInterfaceSymbol, kBuildSymbol, kTableSymbol}) {
    if (::dlsym(library, name) == nullptr) {
      return refuse(concat("is no CUDA module of ttrace: it has no function ", name));
    }
  }
  const auto interface =
      symbol<decltype(ttrace_cuda_interface_version)>(library, kInterfaceSymbol)();
  if (interface != kInterfaceVersion) {
    return refuse(concat("has version ", interface, " of the interface, this ttrace needs ",
                         kInterfaceVersion, kWayOut));
  }
  const std::string build = symbol<decltype(ttrace_cuda_build_id)>(library, kBuildSymbol)();
  if (build != TTRACE_CUDA_BUILD_ID) {
    return refuse(concat("is of another build (", base::printable(build), ", this ttrace is ",
                         TTRACE_CUDA_BUILD_ID, ")", kWayOut));
  }
  return {symbol<decltype(ttrace_cuda_api)>(library, kTableSymbol)(), {}};
}

namespace {

std::string problem_of(const Api& api, Status status) {
  switch (status) {
    case Status::kOk:
    case Status::kNoDevice:
      return "no CUDA device: the driver sees none (is CUDA_VISIBLE_DEVICES empty?)";
    case Status::kNoDriver:
      return "no CUDA device: this machine has no NVIDIA driver";
    case Status::kOldDriver:
      return concat("the NVIDIA driver is too old for this build: ", api.last_error(),
                    "; update the driver");
    case Status::kOutOfMemory:
    case Status::kFailed:
      break;
  }
  return concat("no CUDA device can be used: ", api.last_error());
}

}  // namespace

FoundDevices find_devices(const Api& api) {
  std::uint32_t count = 0;
  const Status status = api.count_devices(&count);
  if (status != Status::kOk || count == 0) return {{}, problem_of(api, status)};
  FoundDevices found;
  for (std::uint32_t device = 0; device < count; ++device) {
    DeviceInfo info;
    const Status described = api.describe(device, &info);
    if (described != Status::kOk) return {{}, problem_of(api, described)};
    found.devices.push_back(info);
  }
  return found;
}

std::string describe_devices(const std::vector<DeviceInfo>& devices) {
  std::string text;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    text += concat(i == 0 ? "" : ", ", "cuda:", i, " ", base::printable(devices[i].name), " (sm_",
                   devices[i].capability, ", ", base::human_bytes(devices[i].memory_bytes), ")");
  }
  return text;
}

}  // namespace ttrace::measure::cuda
