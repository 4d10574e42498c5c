// cuBLAS estimates where it is there; where it is not, or fails, the kernels of the device do.
#include "measure/cuda/cublas.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "localize/causes/near_blocks.h"
#include "measure/cpu/cpu_backend.h"
#include "measure/cuda/cuda_backend.h"
#include "measure/cuda/host_runtime.h"
#include "measure/products.h"
#include "property/random.h"
#include "support/catch.h"

namespace ttrace::measure::cuda::cublas_test {
namespace {

namespace fs = std::filesystem;
using measure::MatrixView;
using measure::Product;
using measure::cuda::CudaBackend;

std::string fake(int broken) {
  return std::string(TTRACE_FAKE_CUBLAS_FOLDER) + "/fake_cublas_" + std::to_string(broken) + ".so";
}

std::vector<double> random_numbers(std::uint64_t count) {
  std::mt19937_64 engine(test::base_seed() + count);
  std::vector<double> numbers(count);
  for (double& number : numbers) number = static_cast<double>(engine() >> 11) * 0x1p-52 - 1;
  return numbers;
}

// Estimates a product whose operands lie by rows or by columns, and checks how far off it is.
// Returns whether it has the bits of the CPU.
bool check_estimate(const CudaBackend& backend, std::uint64_t m, std::uint64_t n, std::uint64_t k,
                    bool a_by_rows, bool b_by_rows, bool add) {
  CAPTURE(m, n, k, a_by_rows, b_by_rows, add);
  const auto view = [](const std::vector<double>& numbers, std::uint64_t rows,
                       std::uint64_t columns, bool by_rows) {
    return by_rows ? MatrixView{numbers.data(), static_cast<std::int64_t>(columns), 1}
                   : MatrixView{numbers.data(), 1, static_cast<std::int64_t>(rows)};
  };
  const std::vector<double> a = random_numbers(m * k);
  const std::vector<double> b = random_numbers(k * n);
  std::vector<double> expected(m * n, 0.25);
  std::vector<double> found = expected;
  Product product{m,
                  n,
                  k,
                  view(a, m, k, a_by_rows),
                  view(b, k, n, b_by_rows),
                  expected.data(),
                  static_cast<std::int64_t>(n),
                  add};
  measure::multiply(product);
  product.c = found.data();
  CHECK(backend.estimate(product));
  bool near = true;
  for (std::size_t i = 0; i < found.size(); ++i) {
    near = near && std::abs(found[i] - expected[i]) <=
                       4 * static_cast<double>(k + 1) * 0x1p-53 * static_cast<double>(k + 1);
  }
  CHECK(near);
  return found == expected;
}

TEST_CASE("cuBLAS estimates products of any shape and order", "[cuda]") {
  Cublas cublas({"/nowhere/libcublas.so.13", fake(0)});
  {
    CudaBackend backend(test::host_runtime({}), {0}, {}, measure::cpu_backend());
    backend.set_gemm(cublas);
    CHECK(backend.remarks().empty());
    bool all_equal = true;
    std::uint64_t products = 0;
    for (const auto& [m, n, k] :
         {std::array<std::uint64_t, 3>{1, 1, 1}, {1, 5, 7}, {6, 1, 7}, {6, 5, 1}, {33, 20, 40}}) {
      for (const int orders : {0, 1, 2, 3, 4, 5, 6, 7}) {
        const bool equal = check_estimate(backend, m, n, k, (orders & 1) != 0, (orders & 2) != 0,
                                          (orders & 4) != 0);
        all_equal = all_equal && equal;
        ++products;
      }
    }
    CHECK_FALSE(all_equal);
    CHECK(test::host_runtime_counts().launches == 0);
    CHECK(backend.remarks() == std::to_string(products) + " products estimated by cuBLAS 13.1.0");
    // What is printed never comes from it.
    Product product;
    const std::vector<double> a = random_numbers(30 * 40);
    std::vector<double> expected(900);
    std::vector<double> found(900);
    product = {30, 30, 40, {a.data(), 40, 1}, {a.data(), 1, 40}, expected.data(), 30, false};
    measure::multiply(product);
    product.c = found.data();
    CHECK(backend.multiply(product));
    CHECK(found == expected);
    CHECK(test::host_runtime_counts().launches == 1);
  }
}

TEST_CASE("without a usable cuBLAS the device's own kernel estimates, and the reason is said",
          "[cuda]") {
  const fs::path empty = fs::temp_directory_path() / "ttrace_no_cublas";
  fs::create_directories(empty);
  const std::pair<std::string, std::string> broken[]{
      {fake(1), "has no function cublasDgemm_v2"},
      {fake(2), "it cannot be started: the library was not initialized"},
      {fake(3), "it cannot be started: it says no"},
      {fake(4), "a product failed: it says no"},
      {"/nowhere/libcublas.so.13", "cannot open shared object file"},
      {empty.string(), "has no libcublas.so.13 or libcublas.so.12"}};
  for (const auto& [place, reason] : broken) {
    CAPTURE(place);
    Cublas cublas({place});
    CudaBackend backend(test::host_runtime({}), {0}, {}, measure::cpu_backend());
    backend.set_gemm(cublas);
    CHECK(check_estimate(backend, 20, 30, 40, true, false, true));
    CHECK(test::host_runtime_counts().launches == 1);
    CHECK(backend.remarks().find("no cuBLAS for estimates: ") == 0);
    CHECK(backend.remarks().find(reason) != std::string::npos);
    CHECK(backend.remarks().find('\n') == std::string::npos);
  }
  fs::remove(empty);
}

TEST_CASE("the variable alone says where cuBLAS is", "[cuda]") {
  ::setenv(kCublasVariable, "/somewhere/libcublas.so.13", 1);
  CHECK(cublas_places() == std::vector<std::string>{"/somewhere/libcublas.so.13"});
  ::unsetenv(kCublasVariable);
  const std::vector<std::string> places = cublas_places();
  REQUIRE(places.size() >= 2);
  CHECK(places[0] == "libcublas.so.13");
}

TEST_CASE("the Python package of the active environment is found", "[cuda]") {
  const fs::path environment = fs::temp_directory_path() / "ttrace_cublas_environment";
  const fs::path folder = environment / "lib/python3.11/site-packages/nvidia/cu13/lib";
  fs::create_directories(folder);
  const char* const before = std::getenv("VIRTUAL_ENV");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("VIRTUAL_ENV", environment.c_str(), 1);
  const std::vector<std::string> places = cublas_places();
  CHECK(std::count(places.begin(), places.end(), folder.string()) == 1);
  before == nullptr ? ::unsetenv("VIRTUAL_ENV") : ::setenv("VIRTUAL_ENV", kept.c_str(), 1);
  fs::remove_all(environment);
}

TEST_CASE("the screen of blocks takes cuBLAS where that pays", "[cuda]") {
  Cublas cublas({fake(0)});
  CudaBackend backend(test::host_runtime({}), {0}, {}, measure::cpu_backend());
  backend.set_gemm(cublas);
  measure::cuda::Costs costs;
  costs.product_start = 0;
  costs.staged_bytes = 1e12;
  backend.set_costs(costs);
  std::vector<localize::SliceSums> slices(64);
  const std::vector<double> numbers = random_numbers(64 * localize::kSketchSize);
  for (std::size_t i = 0; i < slices.size(); ++i) {
    std::copy_n(numbers.begin() + static_cast<std::ptrdiff_t>(i * localize::kSketchSize),
                localize::kSketchSize, slices[i].reference.begin());
  }
  for (std::size_t i = 0; i < slices.size(); ++i) {
    slices[i].candidate = slices[(i + 4) % slices.size()].reference;
  }
  const auto on_device = localize::NearBlocks(slices, &backend).find(16);
  CHECK(on_device == localize::NearBlocks(slices, nullptr).find(16));
  CHECK(on_device.at(3).size() < 5);
  CHECK(backend.remarks() == "1 product estimated by cuBLAS 13.1.0");
}

}  // namespace
}  // namespace ttrace::measure::cuda::cublas_test
