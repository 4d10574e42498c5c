// Runs independent work on several threads. Results keep their index, so nothing downstream can
// depend on the number of threads.
#pragma once

#include <cstddef>
#include <functional>

namespace ttrace::base {

// Calls work(i) once for every i in [0, count), on up to `threads` threads (0: one per core).
// Where calls throw, the exception of the smallest index is rethrown after all threads stopped.
void parallel_for(std::size_t count, unsigned threads,
                  const std::function<void(std::size_t)>& work);

// Number of threads that `threads` stands for: itself, or the number of cores if 0.
unsigned resolve_threads(unsigned threads);

}  // namespace ttrace::base
