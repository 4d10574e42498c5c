// Runs independent work on several threads. Results are stored by index, so no result depends on
// the number of threads.
#pragma once

#include <cstddef>
#include <functional>

namespace ttrace::base {

// Calls work(i) once for every i in [0, count), on up to `threads` threads (0: one per core). If
// calls throw, rethrows the exception of the smallest index after all threads have stopped.
void parallel_for(std::size_t count, unsigned threads,
                  const std::function<void(std::size_t)>& work);

// Returns the number of threads that `threads` stands for: itself, or the number of cores if it is
// 0.
unsigned resolve_threads(unsigned threads);

}  // namespace ttrace::base
