// The process: a supervised child, so that a crash of the HDF5 library is not a crash of ttrace,
// and SIGINT and SIGTERM as a request to stop.
#pragma once

#include <atomic>
#include <functional>

namespace ttrace::app {

// Runs `action` in a child process and returns its exit code. If the child crashes while HDF5 reads
// a file, that file is declared damaged and the action starts again without it; a crash anywhere
// else throws an internal error. In the child, this function simply returns what the action
// returns, or throws what it throws. Signals sent to this process reach the child.
int supervised(const std::function<int()>& action);

// While it lives, the first of these signals sets the flag. A later one ends the process at once,
// as it would have without; what comes within a moment of the first is the same one (a terminal and
// a supervisor both pass it on). One at a time.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  const std::atomic<bool>& flag() const;
};

}  // namespace ttrace::app
