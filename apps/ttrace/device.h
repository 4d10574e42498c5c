// --device and --device-memory: which backend computes.
#pragma once

#include <string>

#include "measure/backend.h"

namespace ttrace::app {

// Takes "auto", "cpu", "cuda", "cuda:1", "cuda:0,1". Throws a usage error for anything else;
// whether the device exists is checked when the work begins.
void choose_device(const std::string& device);

// Memory on every device, as the user wrote it. Throws a usage error if it is no size or too small.
void limit_device_memory(const std::string& size);

// Returns the backend that was chosen; `cpu` also computes what a device cannot take. `auto` is the
// CPU as long as a thread adds up bytes of a file sooner than it would copy them for a device
// (measure/cuda/costs.h), and its remarks say so. Throws a usage error that says why the device
// cannot be used.
const measure::Backend& chosen_backend(const measure::Backend& cpu);

// "ttrace_cuda.so", or that there is none; for --version.
std::string describe_cuda_module();

}  // namespace ttrace::app
