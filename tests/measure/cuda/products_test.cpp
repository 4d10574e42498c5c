// Products of matrices on devices, with the kernels on the host.
#include "specification/primitives/products.h"

#include <random>

#include "measure/cpu/cpu_backend.h"
#include "measure/cuda/conformance_products.h"
#include "measure/cuda/cuda_backend.h"
#include "measure/cuda/device_products.h"
#include "measure/cuda/host_runtime.h"
#include "measure/products.h"
#include "property/random.h"

namespace ttrace::test::products_test {
namespace {

using measure::cuda::Costs;
using measure::cuda::CudaBackend;
using measure::cuda::PoolLimits;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

void check(const Conformance& done) {
  CHECK(done.cases > 50);
  CHECK(done.failures == std::vector<std::string>());
  CHECK(host_runtime_counts().mistakes == Mistakes());
  CHECK(host_runtime_counts().launches >= done.cases);
}

std::vector<double> random_numbers(std::uint64_t count, bool narrow) {
  std::mt19937_64 engine(base_seed());
  std::vector<double> numbers(count);
  for (double& number : numbers) {
    number = static_cast<double>(engine() >> 11) * 0x1p-52 - 1;
    if (narrow) number = static_cast<float>(number);
  }
  return numbers;
}

// A product of m × n × k numbers, and what it should be.
struct Example {
  Example(std::uint64_t rows, std::uint64_t columns, std::uint64_t depth, bool add)
      : a(random_numbers(rows * depth, true)),
        b(random_numbers(depth * columns, true)),
        c(rows * columns, 3.0),
        expected(c),
        product{rows,
                columns,
                depth,
                {a.data(), static_cast<std::int64_t>(depth), 1},
                {b.data(), static_cast<std::int64_t>(columns), 1},
                c.data(),
                static_cast<std::int64_t>(columns),
                add} {
    measure::Product on_cpu = product;
    on_cpu.c = expected.data();
    measure::multiply(on_cpu);
  }

  std::vector<double> a, b, c, expected;
  measure::Product product;
};

TEST_CASE("products on the device have the bits of the CPU", "[cuda]") {
  const CudaBackend backend(host_runtime({}), {0}, {}, measure::cpu_backend());
  check(check_products(backend, base_seed()));
  CHECK(backend.remarks().empty());
}

TEST_CASE("products larger than the device's memory are cut into blocks", "[cuda]") {
  PoolLimits limits;
  limits.workspace_bytes = kMiB;
  limits.device_bytes = 2 * kMiB + 6 * kMiB / 5;  // two workspaces, and a MiB for the matrices
  for (const bool add : {false, true}) {
    const CudaBackend backend(host_runtime({}), {0}, limits, measure::cpu_backend());
    Example example(300, 280, 500, add);
    REQUIRE(backend.multiply(example.product));
    CHECK(example.c == example.expected);
    CHECK(host_runtime_counts().launches > 1);
    CHECK(host_runtime_counts().most_bytes <= limits.device_bytes);
    CHECK(host_runtime_counts().mistakes == Mistakes());
  }
  CHECK(host_runtime_counts().allocations == 0);
}

TEST_CASE("blocks keep the result whole as long as fewer steps make room", "[cuda]") {
  using measure::cuda::blocks_within;
  using measure::cuda::ProductBlocks;
  const ProductBlocks whole{1024, 1024, 4096};
  CHECK(blocks_within(whole, whole.bytes()).k == 4096);
  const ProductBlocks fewer = blocks_within(whole, 24 * kMiB);
  CHECK(fewer.m == 1024);
  CHECK(fewer.n == 1024);
  CHECK(fewer.k == 1024);
  const ProductBlocks small = blocks_within(whole, kMiB);
  CHECK(small.k == 256);
  CHECK(small.bytes() <= kMiB);
  CHECK(small.m > 0);
  CHECK(blocks_within(whole, 1000).m == 0);
}

TEST_CASE("a device lost in the middle of a product leaves the rest to the CPU", "[cuda]") {
  PoolLimits limits;
  limits.workspace_bytes = kMiB;
  limits.device_bytes = 2 * kMiB + 6 * kMiB / 5;
  for (const bool add : {false, true}) {
    for (std::uint64_t operations = 0; operations < 60; operations += 3) {
      CAPTURE(add, operations);
      HostRuntime failing;
      failing.lost_after = operations;
      const CudaBackend backend(host_runtime(failing), {0}, limits, measure::cpu_backend());
      Example example(300, 280, 300, add);
      const std::vector<double> before = example.c;
      const bool done = backend.multiply(example.product);
      CHECK(example.c == (done ? example.expected : before));
      CHECK(backend.remarks().find("cuda:0 was lost") != std::string::npos);
    }
    HostRuntime refusing;
    refusing.launches_lost_after = 2;
    const CudaBackend backend(host_runtime(refusing), {0}, limits, measure::cpu_backend());
    Example example(300, 280, 300, add);
    CHECK(backend.multiply(example.product));
    CHECK(example.c == example.expected);
    CHECK(backend.remarks().find("redone on the CPU") != std::string::npos);
  }
}

TEST_CASE("a device without memory leaves products to the CPU, and the remarks say so", "[cuda]") {
  HostRuntime small;
  small.device_bytes = 1000;
  const CudaBackend backend(host_runtime(small), {0}, {}, measure::cpu_backend());
  Example example(100, 100, 100, true);
  const std::vector<double> before = example.c;
  CHECK_FALSE(backend.multiply(example.product));
  CHECK(example.c == before);
  CHECK(backend.remarks() == "1 request computed on the CPU: device memory ran out");
}

TEST_CASE("a product pays where its arithmetic outweighs its copies", "[cuda]") {
  const Costs costs;
  CHECK(costs.product_pays(1024, 4096, 4096, 16));
  CHECK_FALSE(costs.product_pays(1024, 8, 4096, 1));  // probes
  CHECK_FALSE(costs.product_pays(128, 64, 512, 1));   // a block of attention
  CHECK_FALSE(costs.product_pays(4096, 4096, 1, 1));  // an outer product
  CHECK_FALSE(costs.product_pays(0, 4096, 4096, 1));
}

TEST_CASE("a replay multiplies on the backend where it pays", "[cuda]") {
  CudaBackend backend(host_runtime({}), {0}, {}, measure::cpu_backend());
  Costs costs;
  costs.product_start = 1e-8;
  costs.staged_bytes = 1e12;
  backend.set_costs(costs);
  measure::ExecutionContext on_device;
  on_device.threads = 1;
  on_device.backend = &backend;
  measure::ExecutionContext on_cpu = on_device;
  on_cpu.backend = &measure::cpu_backend();
  const auto value = [](tensor::Shape shape) {
    return specification::Value::of(shape,
                                    random_numbers(tensor::element_count(shape).value(), true));
  };
  const auto check_same = [&](const specification::Value& x, const specification::Value& y,
                              const tensor::Shape& shape, std::uint64_t launches) {
    const std::uint64_t before = host_runtime_counts().launches;
    const specification::Value found = specification::product_of(x, y, shape, on_device);
    const specification::Value expected = specification::product_of(x, y, shape, on_cpu);
    bool equal = true;
    for (std::uint64_t i = 0; i < expected.size(); ++i)
      equal = equal && found.at(i) == expected.at(i);
    CHECK(equal);
    CHECK(host_runtime_counts().launches - before == launches);
  };
  const std::vector<std::size_t> swapped{1, 0};
  const std::vector<std::size_t> batch_second{1, 0, 2};
  check_same(value({100, 120}), value({120, 90}), {100, 90}, 1);
  check_same(value({120, 100}).permuted(swapped), value({90, 120}).permuted(swapped), {100, 90}, 1);
  // Batches of rows times one weight are one product where the rows are evenly apart.
  check_same(value({3, 50, 120}), value({120, 90}), {3, 50, 90}, 1);
  check_same(value({50, 3, 120}).permuted(batch_second), value({120, 90}), {3, 50, 90}, 3);
  check_same(value({3, 50, 120}), value({3, 120, 90}), {3, 50, 90}, 3);
  check_same(value({2, 3}), value({3, 4}), {2, 4}, 0);
}

}  // namespace
}  // namespace ttrace::test::products_test
