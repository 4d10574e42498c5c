// What the work of a command runs on: threads, memory, instruction set, devices. No result depends
// on them.
#pragma once

#include <CLI/CLI.hpp>

namespace ttrace::app {

// --threads; 0: one per core.
void add_threads_flag(CLI::App& command, unsigned& threads);

// --isa, --device, --device-memory, --memory: those that every command takes.
void add_execution_flags(CLI::App& app);

}  // namespace ttrace::app
