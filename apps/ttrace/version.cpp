#include "version.h"

#include "base/concat.h"
#include "trace/hdf5/library_version.h"

namespace ttrace::app {

std::string version() { return TTRACE_VERSION; }

std::string instruction_set() {
#if defined(__AVX512F__)
  return "x86-64-v4";
#elif defined(__AVX2__)
  return "x86-64-v3";
#elif defined(__x86_64__)
  return "x86-64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "generic";
#endif
}

std::string version_text() {
  return base::concat("ttrace ", version(), "\n", "backends: cpu", "\n",
                      "instruction sets: ", instruction_set(), "\n", "cuda: ", TTRACE_CUDA_TOOLKIT,
                      "\n", "hdf5: ", trace::hdf5::library_version(), "\n",
                      "formats: ttrace.manifest/1, ttrace.report/1");
}

}  // namespace ttrace::app
