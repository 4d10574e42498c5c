// SIGINT and SIGTERM as a wish to end, not as an end.
#pragma once

#include <atomic>

namespace ttrace::app {

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
