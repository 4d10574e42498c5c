// Keeps a crash of the HDF5 library from being a crash of ttrace.
#pragma once

#include <functional>

namespace ttrace::app {

// Runs `action` in a child process and returns its exit code. If the child crashes while HDF5 reads
// a file, that file is declared damaged and the action starts again without it; a crash anywhere
// else throws an internal error. In the child, this function simply returns what the action
// returns, or throws what it throws. Signals sent to this process reach the child.
int supervised(const std::function<int()>& action);

}  // namespace ttrace::app
