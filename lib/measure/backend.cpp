#include "measure/backend.h"

#include <algorithm>

#include "base/parallel.h"

namespace ttrace::measure {
namespace {

// Measured: two sides and three noise runs, decoded, take 8 MiB a thread. The windows through which
// small tensors are read take a MiB.
constexpr std::uint64_t kBytesPerThread = std::uint64_t{16} << 20;

}  // namespace

unsigned ExecutionContext::thread_count() const {
  const std::uint64_t most = std::max<std::uint64_t>(1, memory_bytes / kBytesPerThread);
  return static_cast<unsigned>(std::min<std::uint64_t>(base::resolve_threads(threads), most));
}

void ExecutionContext::parallel_for(std::size_t count,
                                    const std::function<void(std::size_t)>& work) const {
  base::parallel_for(count, thread_count(), work);
}

}  // namespace ttrace::measure
