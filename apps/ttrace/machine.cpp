#include "machine.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "base/instruction_sets.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "device.h"
#include "measure/cpu/cpu_backend.h"
#include "measure/cpu/kernel.h"
#include "mpi_ranks.h"
#include "trace/hdf5/trace_files.h"

namespace ttrace::app {
namespace {

constexpr std::uint64_t kMost = std::uint64_t{2} << 30;
constexpr std::uint64_t kLeast = std::uint64_t{64} << 20;

// The context that --isa and --memory have set.
measure::ExecutionContext& parsed() {
  static measure::ExecutionContext context;
  return context;
}

// Half for the threads, half for chunks, which are kept until the next band has used them. Reports
// are read before or without these.
void share_out(std::uint64_t bytes) {
  base::limit_json_memory(bytes);
  parsed().memory_bytes = bytes / 2;
  trace::hdf5::chunk_memory().most = bytes / 2;
}

}  // namespace

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
                      "instruction sets: ", instruction_sets(), "\n",
                      "cuda: ", describe_cuda_module(), "\n", "mpi: ", describe_mpi_module(), "\n",
                      "hdf5: ", trace::hdf5::library_version(), "\n",
                      "formats: ttrace.manifest/2, ttrace.answer/1");
}

std::uint64_t memory_limit() { return 2 * parsed().memory_bytes; }

measure::ExecutionContext execution_context(unsigned threads) {
  measure::ExecutionContext context = parsed();
  context.threads = threads;
  context.backend = &chosen_backend(*context.backend);
  return context;
}

void choose_instruction_set(const std::string& isa) {
  parsed().backend = &measure::cpu_backend(isa);
  base::limit_instruction_sets(isa);
}

void limit_memory_by_default() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_bytes = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0) return share_out(kMost);
  const std::uint64_t quarter =
      static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes) / 4;
  share_out(std::clamp(quarter, kLeast, kMost));
}

void limit_memory(const std::string& size) {
  const auto bytes = base::parse_bytes(size);
  if (!bytes) {
    throw base::usage_error("--memory ", base::printable(size),
                            ": not a size; write it as in 500M or 2G");
  }
  if (*bytes < kLeast) {
    throw base::usage_error("--memory ", base::printable(size), ": at least 64M are needed");
  }
  share_out(*bytes);
}

}  // namespace ttrace::app
