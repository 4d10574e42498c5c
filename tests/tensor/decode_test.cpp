#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/refusal.h"
#include "tensor/codec.h"

namespace ttrace::tensor::decode_test {
namespace {

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <typename T>
std::vector<double> floats(DType dtype, const std::vector<T>& values) {
  std::vector<double> out(values.size());
  decode_floats(dtype, bytes_of(values), out);
  return out;
}

template <typename T>
std::vector<std::int64_t> integers(DType dtype, const std::vector<T>& values) {
  std::vector<std::int64_t> out(values.size());
  decode_integers(dtype, bytes_of(values), out);
  return out;
}

using Doubles = std::vector<double>;
using Integers = std::vector<std::int64_t>;
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST_CASE("a run of floats decodes element by element") {
  CHECK(floats<double>(DType::kFloat64, {0.1, -kInf, 5e-324}) == Doubles{0.1, -kInf, 5e-324});
  CHECK(floats<float>(DType::kFloat32, {0.1F, 1e-45F}) == Doubles{0x1.99999ap-4, 0x1p-149});
  CHECK(floats<std::uint16_t>(DType::kFloat16, {0x3c00, 0xc000}) == Doubles{1, -2});
  CHECK(floats<std::uint16_t>(DType::kBFloat16, {0x3f80, 0xc000}) == Doubles{1, -2});
  CHECK(floats<std::uint8_t>(DType::kFloat8E4M3, {0x38, 0xc0}) == Doubles{1, -2});
  CHECK(floats<std::uint8_t>(DType::kFloat8E5M2, {0x3c, 0xc0}) == Doubles{1, -2});
  CHECK(floats<float>(DType::kFloat32, {}).empty());
}

TEST_CASE("zeros keep their sign and NaN stays NaN") {
  const Doubles wide = floats<double>(DType::kFloat64, {-0.0, std::nan("7")});
  CHECK(std::signbit(wide[0]));
  CHECK(std::isnan(wide[1]));
  const Doubles single = floats<std::uint32_t>(DType::kFloat32, {0x80000000, 0x7f800001});
  CHECK(std::signbit(single[0]));
  CHECK(std::isnan(single[1]));
}

TEST_CASE("unaligned bytes decode") {
  std::vector<std::byte> bytes(1 + 2 * sizeof(double));
  const double values[] = {1.5, -2.5};
  std::memcpy(bytes.data() + 1, values, sizeof(values));
  Doubles out(2);
  decode_floats(DType::kFloat64, std::span(bytes).subspan(1), out);
  CHECK(out == Doubles{1.5, -2.5});
}

TEST_CASE("signed integers are sign-extended") {
  CHECK(integers<std::int8_t>(DType::kInt8, {-128, -1, 127}) == Integers{-128, -1, 127});
  CHECK(integers<std::int16_t>(DType::kInt16, {-32768, 32767}) == Integers{-32768, 32767});
  CHECK(integers<std::int32_t>(DType::kInt32, {INT32_MIN, -1}) == Integers{INT32_MIN, -1});
  CHECK(integers<std::int64_t>(DType::kInt64, {INT64_MIN, INT64_MAX}) ==
        Integers{INT64_MIN, INT64_MAX});
  CHECK(floats<std::int8_t>(DType::kInt8, {-128}) == Doubles{-128});
  CHECK(floats<std::int16_t>(DType::kInt16, {-2}) == Doubles{-2});
  CHECK(floats<std::int32_t>(DType::kInt32, {INT32_MIN}) == Doubles{-0x1p31});
  CHECK(floats<std::int64_t>(DType::kInt64, {INT64_MIN}) == Doubles{-0x1p63});
}

TEST_CASE("unsigned integers are zero-extended") {
  CHECK(integers<std::uint8_t>(DType::kUInt8, {255}) == Integers{255});
  CHECK(integers<std::uint16_t>(DType::kUInt16, {65535}) == Integers{65535});
  CHECK(integers<std::uint32_t>(DType::kUInt32, {UINT32_MAX}) == Integers{UINT32_MAX});
  CHECK(floats<std::uint8_t>(DType::kUInt8, {255}) == Doubles{255});
  CHECK(floats<std::uint16_t>(DType::kUInt16, {65535}) == Doubles{65535});
  CHECK(floats<std::uint32_t>(DType::kUInt32, {UINT32_MAX}) == Doubles{0x1p32 - 1});
}

TEST_CASE("uint64 keeps its bits as an integer and its size as a float") {
  CHECK(integers<std::uint64_t>(DType::kUInt64, {UINT64_MAX, 1}) == Integers{-1, 1});
  CHECK(floats<std::uint64_t>(DType::kUInt64, {UINT64_MAX, 1}) == Doubles{0x1p64, 1});
}

TEST_CASE("any nonzero byte is true") {
  CHECK(integers<std::uint8_t>(DType::kBool, {0, 1, 2, 255}) == Integers{0, 1, 1, 1});
  CHECK(floats<std::uint8_t>(DType::kBool, {0, 1, 2, 255}) == Doubles{0, 1, 1, 1});
}

TEST_CASE("floats are not read as integers") {
  for (const DType dtype : kAllDTypes) {
    if (!is_floating(dtype)) continue;
    CAPTURE(dtype_name(dtype));
    const std::vector<std::byte> bytes(element_bytes(dtype));
    Integers out(1);
    test::check_defect([&] { decode_integers(dtype, bytes, out); }, {dtype_name(dtype)});
  }
}

TEST_CASE("a buffer of another size is a defect") {
  for (const DType dtype : kAllDTypes) {
    CAPTURE(dtype_name(dtype));
    const std::vector<std::byte> bytes(2 * element_bytes(dtype) + 1);
    Doubles out(2);
    test::check_defect([&] { decode_floats(dtype, bytes, out); });
  }
}

}  // namespace
}  // namespace ttrace::tensor::decode_test
