#include "version.h"

#include "base/text.h"
#include "measure/cpu/kernel.h"
#include "mpi_ranks.h"
#include "trace/hdf5/reader.h"

namespace ttrace::app {

std::string version() { return TTRACE_VERSION; }

std::string instruction_sets() {
  std::string names;
  for (const measure::Kernel* kernel : measure::usable_kernels()) {
    names += (names.empty() ? "" : ", ") + std::string(kernel->isa);
  }
  return names;
}

std::string version_text() {
  return base::concat("ttrace ", version(), "\n", "backends: cpu", "\n",
                      "instruction sets: ", instruction_sets(), "\n", "cuda: ", TTRACE_CUDA_TOOLKIT,
                      "\n", "mpi: ", describe_mpi_module(), "\n",
                      "hdf5: ", trace::hdf5::library_version(), "\n",
                      "formats: ttrace.manifest/2, ttrace.report/2");
}

}  // namespace ttrace::app
