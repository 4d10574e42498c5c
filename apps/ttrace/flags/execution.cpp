#include "flags/execution.h"

#include "device.h"
#include "flags/flag_group.h"
#include "machine.h"

namespace ttrace::app {

void add_threads_flag(CLI::App& command, unsigned& threads) {
  FlagGroup(command, kWork)
      .value("--threads N", threads, "number of threads (default: one per core)");
}

void add_execution_flags(CLI::App& app) {
  const FlagGroup work(app, kWork);
  work.taken("--isa NAME", choose_instruction_set,
             "instruction set; no result depends on it (--version lists them)");
  work.taken("--device DEVICE", choose_device,
             "cpu, cuda, cuda:1, cuda:0,1 or auto; no result depends on it");
  work.taken("--device-memory SIZE", limit_device_memory,
             "most memory on every GPU (default: a quarter of it, at most 2G)");
  work.taken("--memory SIZE", limit_memory,
             "most memory beside the manifests (default: a quarter, at most 2G)");
}

}  // namespace ttrace::app
