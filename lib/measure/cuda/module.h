// Opens ttrace_cuda.so, which is built where nvcc is found and lies beside the program. A machine
// without it, or without a GPU, gets one sentence that says what is missing.
#pragma once

#include <string>
#include <vector>

#include "measure/cuda/api.h"

namespace ttrace::measure::cuda {

inline constexpr const char* kModule = "ttrace_cuda.so";
// Names another file than the one beside the program.
inline constexpr const char* kModuleVariable = "TTRACE_CUDA_MODULE";

// The path of the module: that of the variable, else beside the program or, where libttrace.so is
// used, beside this library, else under lib/ of an installation; empty if there is none.
std::string module_path();

struct OpenModule {
  const Api* api = nullptr;
  std::string problem;  // why there is none: "ttrace_cuda.so is of another build (...)"
};

// Loads the module at `path` and checks that it belongs to this program. It stays loaded.
OpenModule open_module(const std::string& path);

struct FoundDevices {
  std::vector<DeviceInfo> devices;  // by index
  std::string problem;              // why there are none
};

FoundDevices find_devices(const Api& api);

// "cuda:0 NVIDIA H100 (sm_90, 80 GiB), cuda:1 ..."
std::string describe_devices(const std::vector<DeviceInfo>& devices);

}  // namespace ttrace::measure::cuda
