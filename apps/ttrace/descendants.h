// The processes that this one has started, and those that they have started, in whatever process
// group or session: torchrun gives each of its workers a session of its own, so ending a process
// group would leave them on the GPUs.
#pragma once

#include <sys/types.h>

#include <string>

namespace ttrace::app {

// From now on, a process whose parent ends becomes a child of this one.
void adopt_orphans();

// Asks all descendants to end, kills those that have not ended after some seconds, and waits for
// them. Warns of one that cannot be ended, such as a process that waits for a lost network file
// system. `whose`: named in the warning. `group`: the process group of the first of them, which
// stands for all if there is no /proc.
void end_descendants(const std::string& whose, pid_t group);

}  // namespace ttrace::app
