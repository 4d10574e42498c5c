// Data movement of the CUDA backend on a runtime that fails: whatever happens, the results are
// those of the CPU, and the remarks say what did not run on a device.
#include "measure/cuda/cuda_backend.h"

#include <thread>

#include "measure/cpu/cpu_backend.h"
#include "measure/cuda/conformance_data.h"
#include "measure/cuda/host_runtime.h"
#include "property/random.h"

namespace ttrace::test::cuda_backend_test {
namespace {

using measure::Batch;
using measure::cpu_backend;
using measure::PairRequest;
using measure::TileStats;
using measure::cuda::CudaBackend;
using measure::cuda::PoolLimits;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A pair of f32 of so many elements, measured in runs that go into one result.
Conformance compare_large(const measure::Backend& backend, std::size_t count, int runs,
                          std::uint64_t seed = 7) {
  Conformance all;
  Draw draw(seed);
  Case one(all, concat("a pair of ", count, " elements"));
  const Values r(draw, DType::kFloat32, count, Pattern::kSprinkled);
  const Values c = r.changed(draw, 20);
  const tensor::Box box = tensor::whole({count});
  const auto sums = [&](const measure::Backend& by) {
    TileStats stats;
    const std::unique_ptr<Batch> batch = by.new_batch();
    for (int i = 0; i < runs; ++i) {
      PairRequest request{r.as(box), c.as(box), box};
      request.stats = &stats;
      batch->add(request);
    }
    batch->finish();
    return stats;
  };
  one.same(sums(cpu_backend()), sums(backend));
  return all;
}

void require_same(const Conformance& done) {
  CHECK(done.failures == std::vector<std::string>());
  CHECK(host_runtime_counts().mistakes == Mistakes());
}

TEST_CASE("a request larger than a workspace goes through it in several chunks", "[cuda]") {
  PoolLimits limits;
  limits.workspace_bytes = kMiB;
  {
    const CudaBackend backend(host_runtime({}), {0}, limits, cpu_backend());
    require_same(compare_large(backend, 400'000, 1));
    CHECK(host_runtime_counts().launches >= 3);
    CHECK(backend.remarks().empty());
  }
  CHECK(host_runtime_counts().allocations == 0);
}

TEST_CASE("the bound of device memory is kept", "[cuda]") {
  PoolLimits limits;
  limits.workspace_bytes = kMiB;
  limits.device_bytes = 3 * kMiB;
  const CudaBackend backend(host_runtime({}), {0}, limits, cpu_backend());
  // More batches at once than there is memory for: those without a workspace use the CPU.
  std::vector<std::unique_ptr<Batch>> batches;
  Draw draw(1);
  const Values r(draw, DType::kBFloat16, 10'000, Pattern::kOrdinary);
  const tensor::Box box = tensor::whole({10'000});
  std::vector<TileStats> stats(5);
  for (TileStats& each : stats) {
    PairRequest request{r.as(box), r.as(box), box};
    request.stats = &each;
    batches.push_back(backend.new_batch());
    batches.back()->add(request);
  }
  for (const auto& batch : batches) batch->finish();
  Conformance all;
  for (const TileStats& each : stats) Case(all, "a batch").same(stats.front(), each);
  require_same(all);
  CHECK(stats.front().elements == 10'000);
  CHECK(host_runtime_counts().most_bytes <= limits.device_bytes);
  CHECK(has(backend.remarks(), "3 requests computed on the CPU"));
}

TEST_CASE("out of memory makes batches smaller, then uses the CPU", "[cuda]") {
  HostRuntime small;
  small.device_bytes = 5 * kMiB;
  const CudaBackend smaller(host_runtime(small), {0}, {}, cpu_backend());
  require_same(compare_large(smaller, 300'000, 2));
  CHECK(host_runtime_counts().launches > 0);
  CHECK(has(smaller.remarks(), "device memory ran out: batches of 4.2 MB"));

  for (const bool pinned : {false, true}) {
    HostRuntime none;
    (pinned ? none.largest_pinned : none.device_bytes) = 1000;
    const CudaBackend cpu(host_runtime(none), {0}, {}, cpu_backend());
    require_same(compare_large(cpu, 300'000, 2));
    CHECK(host_runtime_counts().launches == 0);
    CHECK(has(cpu.remarks(), "2 requests computed on the CPU: device memory ran out"));
  }
}

TEST_CASE("what a lost device had not finished is redone on the CPU", "[cuda]") {
  PoolLimits limits;
  limits.workspace_bytes = kMiB;
  std::uint64_t lost_before_any = 0;
  std::uint64_t lost_later = 0;
  for (std::uint64_t operations = 0; operations < 25; ++operations) {
    HostRuntime lost;
    lost.lost_after = operations;
    const CudaBackend backend(host_runtime(lost), {0}, limits, cpu_backend());
    require_same(compare_large(backend, 250'000, 2, operations));
    // And goes on without the device.
    require_same(check_many_requests(backend, operations));
    const std::string remarks = backend.remarks();
    CAPTURE(operations, remarks);
    CHECK(has(remarks, "cuda:0 was lost (the host device has fallen off the bus)"));
    CHECK(has(remarks, "on the CPU"));
    ++(host_runtime_counts().launches == 0 ? lost_before_any : lost_later);
  }
  CHECK(lost_before_any > 0);
  CHECK(lost_later > 10);
}

TEST_CASE("several devices share the work, and one may be lost", "[cuda]") {
  PoolLimits limits;
  limits.workspace_bytes = kMiB;
  HostRuntime two;
  two.devices = 2;
  {
    const CudaBackend backend(host_runtime(two), {0, 1}, limits, cpu_backend());
    require_same(compare_large(backend, 400'000, 2));
    CHECK(host_runtime_counts().devices_used == 2);
    CHECK(backend.instruction_set() == "sm_90 host 0 (cuda:0), sm_90 host 1 (cuda:1)");
  }
  two.lost = 1;
  two.lost_after = 9;
  const CudaBackend backend(host_runtime(two), {0, 1}, limits, cpu_backend());
  require_same(compare_large(backend, 400'000, 2));
  const std::uint64_t before = host_runtime_counts().tiles;
  require_same(compare_large(backend, 400'000, 1));
  CHECK(host_runtime_counts().tiles > before);
  CHECK(has(backend.remarks(), "cuda:1 was lost"));
  CHECK_FALSE(has(backend.remarks(), "cuda:0 was lost"));
}

TEST_CASE("every kind of request survives a lost device and little memory", "[cuda]") {
  PoolLimits limits;
  limits.workspace_bytes = kMiB;
  limits.device_bytes = 2 * kMiB;
  for (const ConformanceCheck& check : kConformanceChecks) {
    if (std::string(check.name) == "pairs") continue;  // takes long, and has the cases of others
    CAPTURE(check.name);
    HostRuntime lost;
    lost.lost_after = 12;
    const CudaBackend backend(host_runtime(lost), {0}, limits, cpu_backend());
    require_same(check.run(backend, base_seed()));
    CHECK(has(backend.remarks(), "was lost"));
  }
}

TEST_CASE("threads may use the backend at once", "[cuda]") {
  PoolLimits limits;
  limits.workspace_bytes = kMiB;
  limits.device_bytes = 5 * kMiB;
  const CudaBackend backend(host_runtime({}), {0}, limits, cpu_backend());
  std::vector<Conformance> done(4);
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < done.size(); ++t) {
    threads.emplace_back([&, t] { done[t] = compare_large(backend, 150'000 + t, 2, t); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Conformance& each : done) require_same(each);
  CHECK(host_runtime_counts().most_bytes <= limits.device_bytes);
}

TEST_CASE("a batch that is given up leaves its memory to others", "[cuda]") {
  PoolLimits limits;
  limits.workspace_bytes = kMiB;
  const CudaBackend backend(host_runtime({}), {0}, limits, cpu_backend());
  {
    Draw draw(1);
    const Values r(draw, DType::kFloat32, 300'000, Pattern::kOrdinary);
    const tensor::Box box = tensor::whole({300'000});
    TileStats stats;
    PairRequest request{r.as(box), r.as(box), box};
    request.stats = &stats;
    const std::unique_ptr<Batch> batch = backend.new_batch();
    batch->add(request);
  }
  const std::uint64_t allocations = host_runtime_counts().allocations;
  require_same(compare_large(backend, 300'000, 1));
  CHECK(host_runtime_counts().allocations == allocations);
}

}  // namespace
}  // namespace ttrace::test::cuda_backend_test
