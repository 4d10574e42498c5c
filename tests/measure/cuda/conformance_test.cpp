// The CUDA backend with its kernels on the host gives the bits of the CPU backend.
#include "measure/cuda/conformance.h"

#include "measure/cpu/cpu_backend.h"
#include "measure/cuda/cuda_backend.h"
#include "measure/cuda/host_runtime.h"
#include "property/random.h"

namespace ttrace::test::conformance_test {
namespace {

using measure::cuda::CudaBackend;

void check(Conformance (*check)(const measure::Backend&, std::uint64_t)) {
  const CudaBackend backend(host_runtime({}), {0}, {}, measure::cpu_backend());
  const Conformance done = check(backend, base_seed());
  CHECK(done.cases > 30);
  CHECK(done.failures == std::vector<std::string>());
  CHECK(host_runtime_counts().mistakes == Mistakes());
  CHECK(host_runtime_counts().launches > 0);
}

TEST_CASE("pairs on the device have the bits of the CPU", "[cuda]") { check(check_pairs); }
TEST_CASE("pairs of any types on the device have the bits of the CPU", "[cuda]") {
  check(check_mixed_pairs);
}
TEST_CASE("boxes and cells on the device have the bits of the CPU", "[cuda]") {
  check(check_boxes);
}
TEST_CASE("integers on the device are compared exactly", "[cuda]") { check(check_integers); }
TEST_CASE("noise on the device has the bits of the CPU", "[cuda]") { check(check_noise); }
TEST_CASE("sums of rows on the device have the bits of the CPU", "[cuda]") { check(check_rows); }
TEST_CASE("distances of replicas on the device have the bits of the CPU", "[cuda]") {
  check(check_replicas);
}
TEST_CASE("updates replayed on the device have the bits of the CPU", "[cuda]") {
  check(check_updates);
}
TEST_CASE("many requests in one batch on the device have the bits of the CPU", "[cuda]") {
  check(check_many_requests);
}

}  // namespace
}  // namespace ttrace::test::conformance_test
