// Products of matrices on the CPU.
#include <array>
#include <random>
#include <vector>

#include "base/instruction_sets.h"
#include "measure/backend.h"
#include "measure/cpu/kernel.h"
#include "measure/cpu/product_kernels.h"
#include "measure/products.h"
#include "support/catch.h"

namespace ttrace::measure::multiply_test {
namespace {

std::vector<double> random_numbers(std::uint64_t count, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::vector<double> numbers(count);
  for (double& number : numbers) number = static_cast<double>(engine() >> 11) * 0x1p-52 - 1;
  return numbers;
}

TEST_CASE("products add in ascending order of k, whatever the sizes and strides") {
  for (const auto& [m, n, k] : {std::array<std::uint64_t, 3>{1, 1, 1},
                                {5, 17, 3},
                                {131, 530, 259},
                                {4, 16, 600},
                                {19, 8, 300},
                                {8, 5, 33},
                                {3, 2, 0}}) {
    CAPTURE(m, n, k);
    const auto a = random_numbers(m * k, 1);
    const auto b = random_numbers(n * k, 2);
    std::vector<double> c(m * n, 7.0);
    // b is stored transposed.
    multiply(m, n, k, {a.data(), static_cast<std::int64_t>(k), 1},
             {b.data(), 1, static_cast<std::int64_t>(k)}, c.data(), static_cast<std::int64_t>(n),
             false);
    bool equal = true;
    for (std::uint64_t i = 0; i < m; ++i) {
      for (std::uint64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::uint64_t s = 0; s < k; ++s) sum += a[i * k + s] * b[j * k + s];
        equal = equal && c[i * n + j] == sum;
      }
    }
    CHECK(equal);
    // Both stored the other way, and added to what is there.
    multiply(m, n, k, {a.data(), 1, static_cast<std::int64_t>(m)},
             {b.data(), static_cast<std::int64_t>(n), 1}, c.data(), static_cast<std::int64_t>(n),
             true);
    for (std::uint64_t i = 0; i < m; ++i) {
      for (std::uint64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::uint64_t s = 0; s < k; ++s) sum += a[i * k + s] * b[j * k + s];
        for (std::uint64_t s = 0; s < k; ++s) sum += a[s * m + i] * b[s * n + j];
        equal = equal && c[i * n + j] == sum;
      }
    }
    CHECK(equal);
  }
}

#ifdef __x86_64__
TEST_CASE("all kernels use the instruction set that was chosen") {
  for (const Kernel* usable : usable_kernels()) {
    base::limit_instruction_sets(usable->isa);
    CHECK(&kernel_in_use() == usable);
    CHECK(cpu_backend().instruction_set() == usable->isa);
    const std::string_view isa = usable->isa;
    const ProductKernels& products = isa == "x86-64-v4"   ? kProductsV4
                                     : isa == "x86-64-v3" ? kProductsV3
                                                          : kProductsBaseline;
    CHECK(&fastest_product_kernels() == &products);
  }
  base::instruction_sets() = base::machine_instruction_sets();
}

TEST_CASE("thin products are the same to the bit with every instruction set") {
  constexpr std::uint64_t kDepth = 77;
  const auto a = random_numbers(kThinRows * kDepth, 3);
  const auto b = random_numbers(kThinColumns * kDepth, 4);
  std::vector<ThinKernel> kernels{kProductsBaseline.add_thin};
  if (base::instruction_sets().v3) kernels.push_back(kProductsV3.add_thin);
  if (base::instruction_sets().v4) {
    kernels.push_back(kProductsV4.add_thin);
  }
  for (const ThinKernel kernel : kernels) {
    std::vector<double> sums(kThinRows * kThinColumns, 0.5);
    kernel(kDepth, a.data(), static_cast<std::int64_t>(kDepth), 1, b.data(), sums.data());
    bool equal = true;
    for (std::uint64_t i = 0; i < kThinRows; ++i) {
      for (std::uint64_t j = 0; j < kThinColumns; ++j) {
        double sum = 0.5;
        for (std::uint64_t s = 0; s < kDepth; ++s) {
          sum += a[i * kDepth + s] * b[s * kThinColumns + j];
        }
        equal = equal && sums[i * kThinColumns + j] == sum;
      }
    }
    CHECK(equal);
  }
}
#endif

}  // namespace
}  // namespace ttrace::measure::multiply_test
