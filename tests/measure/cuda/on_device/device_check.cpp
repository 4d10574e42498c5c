// Compares a GPU with the CPU bit for bit and measures it; scripts/gpu_check.sh builds and runs it.
//   device_check MODULE [--quick]
// Prints one table. Exits 0 if all cases agree, 1 if one does not, 3 if there is no device.
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "measure/cpu/cpu_backend.h"
#include "measure/cuda/conformance.h"
#include "measure/cuda/conformance_products.h"
#include "measure/cuda/conformance_resident.h"
#include "measure/cuda/cuda_backend.h"
#include "measure/cuda/module.h"
#include "measure/cuda/on_device/benchmark.h"

namespace {

using namespace ttrace;
namespace cuda = measure::cuda;

constexpr int kFailed = 1;
constexpr int kNoDevice = 3;

void print_row(const std::string& what, const std::string& measured, const std::string& target) {
  std::printf("%-52s  %-34s  %s\n", what.c_str(), measured.c_str(), target.c_str());
}

// Returns the number of failures.
std::size_t print_check(const std::string& name, const test::Conformance& done) {
  for (const std::string& failure : done.failures) std::fprintf(stderr, "%s\n", failure.c_str());
  print_row(name,
            std::to_string(done.cases) + " cases, " + std::to_string(done.failures.size()) +
                " differ from the CPU",
            "0");
  return done.failures.size();
}

std::size_t check_all(const std::string& name, const measure::Backend& backend, bool quick) {
  std::size_t failures = 0;
  for (const test::ConformanceCheck& check : test::kConformanceChecks) {
    if (quick && std::strcmp(check.name, "pairs") == 0) continue;
    failures += print_check(name + ": " + check.name, check.run(backend, 1));
  }
  const std::string remarks = backend.remarks();
  if (remarks.find("lost") == std::string::npos && remarks.find("redone") == std::string::npos) {
    return failures;
  }
  print_row(name, remarks, "nothing lost");
  return failures + 1;
}

// The same products within `backend`'s memory, whole or in blocks.
std::size_t check_products(const std::string& name, const cuda::CudaBackend& backend) {
  return print_check(name + ": products of matrices", test::check_products(backend, 1));
}

int run(const std::string& path, bool quick) {
  const cuda::OpenModule module = cuda::open_module(path);
  if (module.api == nullptr) {
    std::fprintf(stderr, "%s\n", module.problem.c_str());
    return kFailed;
  }
  const cuda::FoundDevices found = cuda::find_devices(*module.api);
  if (found.devices.empty()) {
    std::fprintf(stderr, "%s; nothing was checked\n", found.problem.c_str());
    return kNoDevice;
  }
  std::printf("%s\n", cuda::describe_devices(found.devices).c_str());
  const cuda::CudaBackend backend(*module.api, {0}, {}, measure::cpu_backend());
  std::size_t failures = check_all("cuda:0", backend, quick);
  cuda::PoolLimits small;
  small.workspace_bytes = std::uint64_t{1} << 20;
  std::vector<std::uint32_t> all;
  for (std::uint32_t i = 0; i < found.devices.size(); ++i) all.push_back(i);
  const cuda::CudaBackend shared(*module.api, all, small, measure::cpu_backend());
  failures += check_all("all devices, small chunks", shared, true);
  failures += check_products("cuda:0", backend) + check_products("small chunks", shared);
  for (const std::uint32_t device : all) {
    failures += print_check("values that lie on cuda:" + std::to_string(device),
                            test::check_resident(*module.api, device, shared, 1));
  }
  if (!quick) {
    for (const test::BenchmarkRow& row : test::benchmark(*module.api, 0, backend)) {
      print_row(row.what, row.measured, row.target);
    }
    for (const test::BenchmarkRow& row : test::benchmark_products(*module.api, 0, backend)) {
      print_row(row.what, row.measured, row.target);
    }
  }
  return failures == 0 ? 0 : kFailed;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: device_check MODULE [--quick]\n");
    return 2;
  }
  try {
    return run(argv[1], argc > 2 && std::strcmp(argv[2], "--quick") == 0);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return kFailed;
  }
}
