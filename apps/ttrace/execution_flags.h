// --memory and --isa, which hold for every command. With a command's own --threads they make up the
// context that its work runs in.
#pragma once

#include <string>

#include "measure/execution_context.h"

namespace ttrace::app {

// `threads` as given to the command; 0: one per core.
measure::ExecutionContext execution_context(unsigned threads);

// By default a quarter of the machine's memory, at most 2 GiB.
void limit_memory_by_default();
// `size` as the user wrote it. Throws a usage error if it is no size or too small to work with.
void limit_memory(const std::string& size);

// By default the fastest instruction set. Throws a usage error that names the usable ones.
void choose_instruction_set(const std::string& isa);

}  // namespace ttrace::app
