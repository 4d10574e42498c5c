#include <array>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/refusal.h"
#include "measure/cpu/cpu_backend.h"
#include "measure/cpu/kernel.h"
#include "measure/naive_sums.h"
#include "property/random.h"
#include "support/catch.h"
#include "tensor/codec.h"

namespace ttrace::measure::kernels_test {
namespace {

using tensor::DType;
using test::near;
using test::Random;

constexpr std::array kFloats{DType::kFloat64,  DType::kFloat32,    DType::kFloat16,
                             DType::kBFloat16, DType::kFloat8E4M3, DType::kFloat8E5M2};

// Bits of `count` finite values of `dtype`, subnormal ones among them.
std::vector<std::byte> finite_bits(DType dtype, std::size_t count, Random& random) {
  const std::size_t width = tensor::element_bytes(dtype);
  std::vector<std::byte> bits(count * width);
  for (std::size_t i = 0; i < count;) {
    for (std::size_t b = 0; b < width; ++b) {
      bits[i * width + b] = static_cast<std::byte>(random.between(0, 255));
    }
    // Squares of the largest float64 would overflow.
    if (dtype == DType::kFloat64) {
      bits[i * width + 7] = static_cast<std::byte>(random.between(0x3c, 0x43));
    }
    double value = 0;
    tensor::decode_floats(dtype, {bits.data() + i * width, width}, {&value, 1});
    if (std::isfinite(value)) ++i;
  }
  return bits;
}

std::vector<double> decoded(DType dtype, const std::vector<std::byte>& bits) {
  std::vector<double> values(bits.size() / tensor::element_bytes(dtype));
  tensor::decode_floats(dtype, bits, values);
  return values;
}

TileSums sums_of(const Kernel& kernel, StoredType type, const void* r, const void* c,
                 std::size_t count) {
  TileSums sums;
  kernel.sum(type, r, c, count, sums);
  return sums;
}

void check_same(const TileSums& a, const TileSums& b) {
  CHECK(a.d2 == b.d2);
  CHECK(a.d == b.d);
  CHECK(a.r2 == b.r2);
  CHECK(a.c2 == b.c2);
  CHECK(a.rc == b.rc);
  CHECK(a.largest == b.largest);
  CHECK(a.unequal == b.unequal);
}

TEST_CASE("every kernel gives the same bits for every type, length and address", "[kernels]") {
  Random random(11);
  for (const DType dtype : kFloats) {
    const std::size_t width = tensor::element_bytes(dtype);
    for (const std::size_t count : {0U, 1U, 31U, 32U, 33U, 63U, 100U, 1000U, 4095U, 4096U}) {
      CAPTURE(tensor::dtype_name(dtype), count);
      const std::vector<std::byte> r = finite_bits(dtype, count, random);
      const std::vector<std::byte> c = finite_bits(dtype, count, random);
      const std::vector<double> wide_r = decoded(dtype, r);
      const std::vector<double> wide_c = decoded(dtype, c);
      // What is decoded on the way gives what decoded values give.
      const TileSums expected =
          sums_of(*usable_kernels().back(), StoredType::kF64, wide_r.data(), wide_c.data(), count);
      const test::NaiveSums naive = test::naive_sums(wide_r, wide_c);
      CHECK(near(expected.d2, naive.d2, naive.d2));
      CHECK(near(expected.d, naive.d, naive.absolute_d));
      CHECK(near(expected.r2, naive.r2, naive.r2));
      CHECK(near(expected.c2, naive.c2, naive.c2));
      CHECK(near(expected.rc, naive.rc, naive.absolute_rc));
      CHECK(expected.largest == naive.largest);
      CHECK(expected.unequal == naive.unequal);
      for (const Kernel* kernel : usable_kernels()) {
        CAPTURE(kernel->isa);
        check_same(sums_of(*kernel, StoredType::kF64, wide_r.data(), wide_c.data(), count),
                   expected);
        for (const std::size_t shift : {0U, 1U, 3U}) {
          std::vector<std::byte> moved_r(count * width + shift);
          std::vector<std::byte> moved_c(count * width + shift);
          if (count > 0) {
            std::memcpy(moved_r.data() + shift, r.data(), r.size());
            std::memcpy(moved_c.data() + shift, c.data(), c.size());
          }
          check_same(sums_of(*kernel, stored_as(dtype), moved_r.data() + shift,
                             moved_c.data() + shift, count),
                     expected);
        }
      }
    }
  }
}

TEST_CASE("zeros of both signs are equal, and all pairs of a tile may be unequal", "[kernels]") {
  for (const DType dtype : kFloats) {
    const std::size_t width = tensor::element_bytes(dtype);
    for (const std::size_t count : {1U, 31U, 32U, 33U, 4095U, 4096U}) {
      CAPTURE(tensor::dtype_name(dtype), count);
      const std::vector<std::byte> zeros(count * width);
      std::vector<std::byte> negative = zeros;
      std::vector<std::byte> smallest = zeros;
      for (std::size_t i = 0; i < count; ++i) {
        negative[i * width + width - 1] = std::byte{0x80};
        smallest[i * width] = std::byte{1};  // the least subnormal number
      }
      for (const Kernel* kernel : usable_kernels()) {
        CAPTURE(kernel->isa);
        const auto unequal = [&](const auto& r, const auto& c) {
          return sums_of(*kernel, stored_as(dtype), r.data(), c.data(), count).unequal;
        };
        CHECK(unequal(zeros, negative) == 0);
        CHECK(unequal(negative, zeros) == 0);
        CHECK(unequal(zeros, smallest) == count);
        CHECK(unequal(smallest, negative) == count);
      }
    }
  }
}

TEST_CASE("equal tiles are summed as any others are, to the bit", "[kernels]") {
  Random random(12);
  for (const DType dtype : kFloats) {
    const std::size_t width = tensor::element_bytes(dtype);
    for (const std::size_t count : {1U, 31U, 32U, 33U, 100U, 4095U, 4096U}) {
      CAPTURE(tensor::dtype_name(dtype), count);
      const std::vector<std::byte> r = finite_bits(dtype, count, random);
      for (const Kernel* kernel : usable_kernels()) {
        CAPTURE(kernel->isa);
        const TileSums equal = sums_of(*kernel, stored_as(dtype), r.data(), r.data(), count);
        CHECK(equal.d2 == 0);
        CHECK(equal.d == 0);
        CHECK(equal.largest == 0);
        CHECK(equal.unequal == 0);
        CHECK(equal.c2 == equal.r2);
        CHECK(equal.rc == equal.r2);
        // Another candidate does not change Σ r², and is summed in the other way.
        std::vector<std::byte> other = r;
        other[count * width - 1] ^= std::byte{0x80};
        CHECK(sums_of(*kernel, stored_as(dtype), r.data(), other.data(), count).r2 == equal.r2);
      }
    }
  }
}

TEST_CASE("every kernel decodes every pattern of the narrow types", "[kernels]") {
  for (const DType dtype :
       {DType::kFloat16, DType::kBFloat16, DType::kFloat8E4M3, DType::kFloat8E5M2}) {
    const std::size_t width = tensor::element_bytes(dtype);
    const std::size_t patterns = width == 1 ? 256 : 65536;
    std::size_t wrong = 0;
    for (std::size_t pattern = 0; pattern < patterns; ++pattern) {
      const std::array<std::byte, 2> bits{static_cast<std::byte>(pattern & 0xff),
                                          static_cast<std::byte>(pattern >> 8)};
      const std::array<std::byte, 2> zero{};
      double value = 0;
      tensor::decode_floats(dtype, {bits.data(), width}, {&value, 1});
      for (const Kernel* kernel : usable_kernels()) {
        const TileSums sums = sums_of(*kernel, stored_as(dtype), zero.data(), bits.data(), 1);
        const bool right = std::isfinite(value) ? sums.d == value && sums.c2 == value * value &&
                                                      sums.largest == std::abs(value)
                                                : !std::isfinite(sums.c2);
        wrong += right ? 0 : 1;
      }
    }
    CAPTURE(tensor::dtype_name(dtype));
    CHECK(wrong == 0);
  }
}

// Σ f(i) as documented: element i to lane i mod 32, the lanes halved until one is left.
template <typename Term>
double lane_sum(std::size_t count, Term term) {
  std::array<double, 32> lanes{};
  for (std::size_t i = 0; i < count; ++i) {
    // Through memory, so that no compiler keeps more bits or fuses the operations.
    volatile double value = term(i);
    lanes[i % 32] += value;
  }
  for (std::size_t width = 16; width > 0; width /= 2) {
    for (std::size_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

TEST_CASE("tile sums are the documented lane sums to the last bit", "[kernels]") {
  Random random(8);
  for (const std::size_t count : {1U, 31U, 33U, 1000U, 4095U, 4096U}) {
    CAPTURE(count);
    const std::vector<double> r = random.values(count);
    const std::vector<double> c = random.values(count);
    const TileSums sums =
        sums_of(*usable_kernels().front(), StoredType::kF64, r.data(), c.data(), count);
    CHECK(sums.d == lane_sum(count, [&](std::size_t i) { return c[i] - r[i]; }));
    CHECK(sums.r2 == lane_sum(count, [&](std::size_t i) { return r[i] * r[i]; }));
    CHECK(sums.c2 == lane_sum(count, [&](std::size_t i) { return c[i] * c[i]; }));
    CHECK(sums.rc == lane_sum(count, [&](std::size_t i) { return r[i] * c[i]; }));
    CHECK(sums.d2 == lane_sum(count, [&](std::size_t i) {
            volatile double d = c[i] - r[i];
            return d * d;
          }));
  }
}

TEST_CASE("one non-finite value anywhere shows in the squares", "[kernels]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> ones(100, 1);
  std::size_t seen = 0;
  for (const float odd : {nan, inf, -inf}) {
    for (std::size_t at = 0; at < ones.size(); ++at) {
      std::vector<float> values = ones;
      values[at] = odd;
      for (const Kernel* kernel : usable_kernels()) {
        seen +=
            std::isfinite(sums_of(*kernel, StoredType::kF32, values.data(), ones.data(), 100).r2)
                ? 0
                : 1;
        seen +=
            std::isfinite(sums_of(*kernel, StoredType::kF32, ones.data(), values.data(), 100).c2)
                ? 0
                : 1;
      }
    }
  }
  CHECK(seen == 3 * 100 * 2 * usable_kernels().size());
}

TEST_CASE("an instruction set can be chosen by name, and no other", "[kernels]") {
  CHECK(cpu_backend().instruction_set() == usable_kernels().front()->isa);
  for (const Kernel* usable : usable_kernels()) {
    CHECK(cpu_backend(usable->isa).instruction_set() == usable->isa);
  }
  test::check_error(base::ErrorKind::kUsage, [] { cpu_backend("mmx"); }, {"mmx", "x86-64"});
}

}  // namespace
}  // namespace ttrace::measure::kernels_test
