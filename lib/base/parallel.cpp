#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace ttrace::base {

unsigned resolve_threads(unsigned threads) {
  return threads != 0 ? threads : std::max(1U, std::thread::hardware_concurrency());
}

void parallel_for(std::size_t count, unsigned threads,
                  const std::function<void(std::size_t)>& work) {
  const auto workers =
      static_cast<unsigned>(std::min<std::size_t>(resolve_threads(threads), count));
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::exception_ptr error;
  std::size_t error_index = count;

  const auto run = [&] {
    while (!failed.load(std::memory_order_relaxed)) {
      const std::size_t index = next.fetch_add(1, std::memory_order_relaxed);
      if (index >= count) return;
      try {
        work(index);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (index < error_index) {
          error = std::current_exception();
          error_index = index;
        }
        failed.store(true, std::memory_order_relaxed);
      }
    }
  };

  if (workers <= 1) {
    run();
  } else {
    std::vector<std::jthread> pool;
    pool.reserve(workers);
    try {
      while (pool.size() < workers) pool.emplace_back(run);
    } catch (const std::system_error&) {
      // The system refuses more threads: work with those that started.
      run();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace ttrace::base
