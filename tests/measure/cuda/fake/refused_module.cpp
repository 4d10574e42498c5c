// Modules that must not be used: of another interface, of another build, or without a function.
#include "measure/cuda/api.h"

using namespace ttrace::measure::cuda;

std::uint32_t ttrace_cuda_interface_version() { return TTRACE_FAKE_INTERFACE; }
#ifdef TTRACE_FAKE_BUILD_ID
const char* ttrace_cuda_build_id() { return TTRACE_FAKE_BUILD_ID; }
#endif
const Api* ttrace_cuda_api() { return nullptr; }
