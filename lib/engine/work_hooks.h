// What long work tells while it runs, and is told.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>

#include "base/progress.h"

namespace ttrace::engine {

struct WorkHooks {
  // Pair i is done; called from any thread. May be null.
  std::function<void(std::size_t i)> finished = nullptr;
  // May be null.
  base::Progress* progress = nullptr;
  // Once it is true nothing further is begun, of a large pair no further section. May be null.
  const std::atomic<bool>* stop = nullptr;

  bool stopped() const { return stop != nullptr && stop->load(std::memory_order_relaxed); }
};

}  // namespace ttrace::engine
