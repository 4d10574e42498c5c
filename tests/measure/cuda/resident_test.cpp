// Values in the memory of a device are compared where they lie; what goes wrong there never changes
// a result.
#include <functional>

#include "base/error.h"
#include "measure/cpu/cpu_backend.h"
#include "measure/cuda/conformance_data.h"
#include "measure/cuda/conformance_resident.h"
#include "measure/cuda/cuda_backend.h"
#include "measure/cuda/host_runtime.h"
#include "property/random.h"

namespace ttrace::test::resident_test {
namespace {

using measure::Batch;
using measure::cpu_backend;
using measure::PairRequest;
using measure::TileStats;
using measure::cuda::Api;
using measure::cuda::CudaBackend;
using measure::cuda::PoolLimits;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

HostRuntime guarded() {
  HostRuntime settings;
  settings.guarded = true;
  return settings;
}

// A pair of f32 whose sides lie on two devices, compared `times` times in one batch.
class Pair {
 public:
  Pair(const Api& api, std::uint32_t of_r, std::uint32_t of_c, std::size_t count = 50'000)
      : draw_(count),
        box_(tensor::whole({count})),
        r_(draw_, DType::kFloat32, count, Pattern::kSprinkled),
        c_(r_.changed(draw_, 20)),
        resident_r_(api, of_r, r_.all_bytes()),
        resident_c_(api, of_c, c_.all_bytes()),
        of_r_(of_r),
        of_c_(of_c) {}

  void require_same(const measure::Backend& backend, int times) const {
    Conformance all;
    InputBox r = r_.as(box_);
    InputBox c = c_.as(box_);
    const TileStats expected = sums(cpu_backend(), r, c, times);
    r.values.bits = resident_r_.bytes();
    r.values.device = of_r_;
    c.values.bits = resident_c_.bytes();
    c.values.device = of_c_;
    Case(all, "a resident pair").same(expected, sums(backend, r, c, times));
    CHECK(all.failures == std::vector<std::string>());
    CHECK(host_runtime_counts().mistakes == Mistakes());
  }

 private:
  TileStats sums(const measure::Backend& by, const InputBox& r, const InputBox& c,
                 int times) const {
    TileStats stats;
    const std::unique_ptr<Batch> batch = by.new_batch();
    for (int i = 0; i < times; ++i) {
      PairRequest request{r, c, box_};
      request.stats = &stats;
      batch->add(request);
    }
    batch->finish();
    return stats;
  }

  Draw draw_;
  tensor::Box box_;
  Values r_;
  Values c_;
  Resident resident_r_;
  Resident resident_c_;
  std::uint32_t of_r_;
  std::uint32_t of_c_;
};

TEST_CASE("values on a device have the bits of the CPU", "[cuda]") {
  const Api& api = host_runtime(guarded());
  const CudaBackend backend(api, {0}, {}, cpu_backend());
  const Conformance done = check_resident(api, 0, backend, base_seed());
  CHECK(done.cases > 150);
  CHECK(done.failures == std::vector<std::string>());
  CHECK(host_runtime_counts().mistakes == Mistakes());
  CHECK(host_runtime_counts().launches > 100);
}

TEST_CASE("values on a device are not copied", "[cuda]") {
  const Api& api = host_runtime(guarded());
  const CudaBackend backend(api, {0}, {}, cpu_backend());
  Pair(api, 0, 0).require_same(backend, 3);
  CHECK(host_runtime_counts().launches == 1);
  CHECK(host_runtime_counts().fetches == 0);
  CHECK(backend.remarks().empty());
}

TEST_CASE("more requests than a workspace holds go through several", "[cuda]") {
  PoolLimits limits;
  limits.workspace_bytes = std::uint64_t{1} << 20;
  const Api& api = host_runtime(guarded());
  const CudaBackend backend(api, {0}, limits, cpu_backend());
  Pair(api, 0, 0, 40).require_same(backend, 1100);
  CHECK(host_runtime_counts().launches == 2);
  CHECK(host_runtime_counts().fetches == 0);
}

TEST_CASE("each device reads what lies on it, and no other", "[cuda]") {
  HostRuntime two = guarded();
  two.devices = 2;
  const Api& api = host_runtime(two);
  const CudaBackend backend(api, {0, 1}, {}, cpu_backend());
  CHECK(backend.reads_device(1));
  CHECK_FALSE(backend.reads_device(2));
  Pair(api, 1, 1).require_same(backend, 2);
  Pair(api, 0, 0).require_same(backend, 2);
  CHECK(host_runtime_counts().devices_used == 2);
  CHECK(host_runtime_counts().fetches == 0);
  Pair(api, 0, 1).require_same(backend, 1);
  CHECK(host_runtime_counts().fetches == 2);
  CHECK(backend.remarks() == "400.0 kB of values on devices copied to the host (2 reads)");
}

TEST_CASE("values of a device without memory to work in are compared on the CPU", "[cuda]") {
  PoolLimits none;
  none.device_bytes = 1000;
  const Api& api = host_runtime(guarded());
  const CudaBackend backend(api, {0}, none, cpu_backend());
  Pair(api, 0, 0).require_same(backend, 1);
  CHECK(host_runtime_counts().launches == 0);
  CHECK(has(backend.remarks(), "1 request computed on the CPU: device memory ran out"));
  CHECK(has(backend.remarks(), "copied to the host (2 reads)"));
}

TEST_CASE("a device that launches no more gives its values to the CPU", "[cuda]") {
  PoolLimits limits;
  limits.workspace_bytes = std::uint64_t{1} << 20;
  for (std::uint64_t launches = 0; launches < 3; ++launches) {
    HostRuntime lost = guarded();
    lost.launches_lost_after = launches;
    const Api& api = host_runtime(lost);
    const CudaBackend backend(api, {0}, limits, cpu_backend());
    const Pair pair(api, 0, 0, 40);
    pair.require_same(backend, 2100);
    pair.require_same(backend, 2);
    CAPTURE(launches, backend.remarks());
    CHECK_FALSE(backend.reads_device(0));
    CHECK(has(backend.remarks(), "cuda:0 was lost (the host device has fallen off the bus)"));
    CHECK(has(backend.remarks(), "redone on the CPU"));
    CHECK(has(backend.remarks(), "copied to the host"));
  }
}

TEST_CASE("values that are lost with their device are an error", "[cuda]") {
  // Three operations and an upload for each of the pair's sides come first.
  for (std::uint64_t operations = 8; operations < 16; ++operations) {
    HostRuntime lost = guarded();
    lost.lost_after = operations;
    const Api& api = host_runtime(lost);
    const CudaBackend backend(api, {0}, {}, cpu_backend());
    const Pair pair(api, 0, 0, 5000);
    CAPTURE(operations);
    std::string reason;
    try {
      for (int i = 0; i < 5; ++i) pair.require_same(backend, 2);
    } catch (const base::InputError& error) {
      reason = error.what();
    }
    CHECK(reason ==
          "values in the memory of cuda:0 cannot be read (the host device has fallen off the bus); "
          "compare again in a new process");
    CHECK_FALSE(backend.reads_device(0));
  }
  CHECK(host_runtime_counts().allocations == 0);
}

}  // namespace
}  // namespace ttrace::test::resident_test
