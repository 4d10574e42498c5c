#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "support/catch.h"
#include "tensor/codec.h"

namespace ttrace::tensor::round_to_test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// Every finite number that the type holds.
std::vector<double> numbers_of(DType dtype) {
  const std::size_t bytes = element_bytes(dtype);
  std::vector<double> numbers;
  for (std::uint32_t bits = 0; bits < (1U << (8 * bytes)); ++bits) {
    std::array<std::byte, 4> stored{};
    std::memcpy(stored.data(), &bits, 4);
    double value = 0;
    decode_floats(dtype, std::span(stored).first(bytes), {&value, 1});
    if (std::isfinite(value)) numbers.push_back(value);
  }
  return numbers;
}

TEST_CASE("numbers of a type round to themselves, and what lies between to the nearer one",
          "[selftest]") {
  for (const DType dtype :
       {DType::kFloat16, DType::kBFloat16, DType::kFloat8E4M3, DType::kFloat8E5M2}) {
    INFO(dtype_name(dtype));
    std::vector<double> numbers = numbers_of(dtype);
    std::sort(numbers.begin(), numbers.end());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i + 1 < numbers.size(); ++i) {
      const double low = numbers[i];
      const double high = numbers[i + 1];
      wrong += round_to(dtype, low) == low ? 0 : 1;
      wrong += round_to(dtype, low + 0.4375 * (high - low)) == low ? 0 : 1;
      wrong += round_to(dtype, low + 0.5625 * (high - low)) == high ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("halves round to even, and beyond the largest there are infinities or NaN",
          "[selftest]") {
  CHECK(round_to(DType::kBFloat16, 1 + 0x1p-8) == 1);
  CHECK(round_to(DType::kBFloat16, 1 + 3 * 0x1p-8) == 1 + 0x1p-6);
  CHECK(round_to(DType::kFloat16, 65519) == 65504);
  CHECK(round_to(DType::kFloat16, -65520) == -kInf);
  CHECK(round_to(DType::kFloat8E5M2, 1e9) == kInf);
  CHECK(std::isnan(round_to(DType::kFloat8E4M3, 1e9)));
  CHECK(std::isnan(round_to(DType::kFloat8E4M3, kInf)));
  CHECK(std::isnan(round_to(DType::kBFloat16, std::nan(""))));
  CHECK(round_to(DType::kFloat32, 1 + 0x1p-25) == 1);
  CHECK(round_to(DType::kFloat64, 1 + 0x1p-50) == 1 + 0x1p-50);
}

}  // namespace
}  // namespace ttrace::tensor::round_to_test
