// Process control: runs the work in a child, so that a crash of the HDF5 library does not crash
// ttrace, and turns SIGINT and SIGTERM into a request to stop. And the limit of open files.
#pragma once

#include <atomic>
#include <functional>

namespace ttrace::app {

// Throws an input error if the stacks of this process and its threads may not be as large as they
// become. A stack that ends is no exception: it would end the process without a word.
void require_stack();

// Raises the limit of open files: a run of thousands of ranks has as many files.
void allow_many_files();
// Restores the former limit, for a program that this process becomes by exec. Allocates no memory.
void restore_file_limit();

// Runs `action` in a child process and returns its exit code. If the child crashes while HDF5 reads
// a file, declares that file damaged and starts the action again without it; any other crash throws
// an internal error. In the child, the function returns what the action returns, or throws what it
// throws. Forwards signals to the child.
int supervised(const std::function<int()>& action);

// While an object of this class exists, the first SIGINT or SIGTERM sets a flag and a later one
// ends the process at once. A signal shortly after the first counts as the same one, because a
// terminal and a supervising process both pass it on. At most one object may exist.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  const std::atomic<bool>& flag() const;
};

}  // namespace ttrace::app
