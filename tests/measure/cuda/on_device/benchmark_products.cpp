#include <cmath>

#include "base/text.h"
#include "measure/cuda/conformance_data.h"
#include "measure/cuda/cublas.h"
#include "measure/cuda/on_device/benchmark.h"
#include "measure/cuda/on_device/scratch.h"
#include "measure/products.h"

namespace ttrace::test {
namespace {

using namespace measure::cuda;

// A linear layer: 1,024 tokens, 4,096 features in and out.
constexpr std::uint64_t kRows = 1024;
constexpr std::uint64_t kColumns = 4096;
constexpr std::uint64_t kSteps = 4096;
constexpr double kOperations = 2.0 * kRows * kColumns * kSteps;

// A matrix on the device whose elements are numbers of binary32.
double* matrix(Scratch& scratch, Draw& draw, std::uint64_t elements) {
  const std::uint64_t bytes = elements * sizeof(double);
  auto* const host = static_cast<double*>(scratch.pinned(bytes));
  for (std::uint64_t i = 0; i < elements; ++i) host[i] = static_cast<float>(draw.symmetric());
  void* const memory = scratch.memory(bytes);
  scratch.copy(memory, host, bytes);
  scratch.wait();
  return static_cast<double*>(memory);
}

std::string rate(double seconds) {
  return text_of("%.2f ms, %.1f Tflop/s", seconds * 1e3, kOperations / seconds * 1e-12);
}

}  // namespace

std::vector<BenchmarkRow> benchmark_products(const Api& api, std::uint32_t device,
                                             const CudaBackend& backend) {
  std::vector<BenchmarkRow> rows;
  const std::string what = concat(kRows, " x ", kColumns, " x ", kSteps, " in binary64");
  {
    Scratch scratch(api, device);
    Draw draw(4);
    ProductLaunch launch;
    launch.m = kRows;
    launch.n = kColumns;
    launch.k = kSteps;
    launch.a = {matrix(scratch, draw, kRows * kSteps), kSteps, 1};
    launch.b = {matrix(scratch, draw, kSteps * kColumns), 1, kColumns};
    launch.c = static_cast<double*>(scratch.memory(kRows * kColumns * sizeof(double)));
    launch.exact_products = true;
    const double fused = scratch.seconds([&] { scratch.launch(launch); });
    launch.exact_products = false;
    const double apart = scratch.seconds([&] { scratch.launch(launch); });
    measure::cuda::Cublas cublas(measure::cuda::cublas_places());
    std::string of_fused = rate(fused);
    std::string of_apart = rate(apart);
    if (cublas.multiply(device, scratch.stream(), launch)) {
      const double theirs =
          scratch.seconds([&] { cublas.multiply(device, scratch.stream(), launch); });
      rows.push_back({what + ", cuBLAS alone", rate(theirs), ""});
      of_fused += text_of(" (%.0f %% of cuBLAS)", 100 * theirs / fused, 0);
      of_apart += text_of(" (%.0f %% of cuBLAS)", 100 * theirs / apart, 0);
    } else {
      rows.push_back({what + ", cuBLAS alone", "not run: " + cublas.remarks(), ""});
    }
    rows.push_back({what + ", of f32, alone", of_fused, ">= 80 % of cuBLAS"});
    rows.push_back({what + ", of f64, alone", of_apart, ""});
  }
  Draw draw(5);
  std::vector<double> a(kRows * kSteps);
  std::vector<double> b(kSteps * kColumns);
  for (double& number : a) number = static_cast<float>(draw.symmetric());
  for (double& number : b) number = static_cast<float>(draw.symmetric());
  std::vector<double> c(kRows * kColumns);
  measure::Product product{
      kRows,    kColumns, kSteps, {a.data(), kSteps, 1}, {b.data(), kColumns, 1},
      c.data(), kColumns, false};
  const auto seconds_of = [&](const auto& multiply) {
    const auto start = std::chrono::steady_clock::now();
    multiply();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  backend.multiply(product);
  const double on_device = seconds_of([&] { backend.multiply(product); });
  product.m = kRows / 8;
  const double on_cpu = 8 * seconds_of([&] { measure::multiply(product); });
  rows.push_back(
      {what + ", from and to the host",
       rate(on_device) + text_of(" (%.1f x one thread of the CPU)", on_cpu / on_device, 0), ""});
  return rows;
}

}  // namespace ttrace::test
