// What a command may use to do its work: threads, memory and a backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>

#include "measure/backend.h"

namespace ttrace::measure {

// The CPU with its fastest instruction set (cpu/cpu_backend.h).
const Backend& cpu_backend();

struct ExecutionContext {
  unsigned threads = 0;  // 0: one per core
  // For what the threads read and decode; fewer threads run where it is not enough for all.
  std::uint64_t memory_bytes = std::numeric_limits<std::uint64_t>::max();
  const Backend* backend = &cpu_backend();

  // At least 1.
  unsigned thread_count() const;

  // As base::parallel_for, on thread_count() threads.
  void parallel_for(std::size_t count, const std::function<void(std::size_t)>& work) const;
};

}  // namespace ttrace::measure
