// What this build and this machine offer: versions, instruction sets, memory; and the context that
// the work of a command runs in.
#pragma once

#include <cstdint>
#include <string>

#include "measure/backend.h"

namespace ttrace::app {

// "0.1.0"
std::string version();
// The text of `ttrace --version`.
std::string version_text();
// The instruction sets of this build that this machine supports, fastest first: "x86-64-v3,
// x86-64".
std::string instruction_sets();

// --isa; by default the fastest instruction set. Throws a usage error that names the usable ones.
void choose_instruction_set(const std::string& isa);

// --memory, as the user wrote it. Throws a usage error if it is no size or too small to work with.
void limit_memory(const std::string& size);
// A quarter of the machine's memory, at most 2 GiB.
void limit_memory_by_default();

// All that --memory allows.
std::uint64_t memory_limit();

// The context with the instruction set and memory above and the backend of --device (device.h).
// `threads` as given to the command; 0: one per core.
measure::ExecutionContext execution_context(unsigned threads);

}  // namespace ttrace::app
