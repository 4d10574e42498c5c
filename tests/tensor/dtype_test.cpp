#include "tensor/dtype.h"

#include <map>

#include "support/catch.h"

namespace ttrace::tensor::dtype_test {
namespace {

TEST_CASE("every dtype is found again by its name") {
  for (const DType dtype : kAllDTypes) CHECK(parse_dtype(dtype_name(dtype)) == dtype);
  CHECK_FALSE(parse_dtype("float").has_value());
  CHECK_FALSE(parse_dtype("").has_value());
}

TEST_CASE("tf32 is a type to compute in, and none to store") {
  CHECK(parse_precision("tf32") == DType::kTensorFloat32);
  CHECK_FALSE(parse_dtype("tf32").has_value());
  for (const DType dtype : kAllDTypes) {
    CHECK(parse_precision(dtype_name(dtype)) == dtype);
    CHECK(kept_in(dtype) == dtype);
  }
  CHECK(kept_in(DType::kTensorFloat32) == DType::kFloat32);
  CHECK(epsilon(DType::kTensorFloat32) == 0x1p-10);
  CHECK(quantum(DType::kTensorFloat32) == quantum(DType::kFloat32));
}

TEST_CASE("precision is counted as the method says") {
  CHECK(epsilon(DType::kFloat64) == 0x1p-52);
  CHECK(epsilon(DType::kFloat32) == 0x1p-23);
  CHECK(epsilon(DType::kFloat16) == 0x1p-10);
  for (const DType coarse : {DType::kBFloat16, DType::kFloat8E4M3, DType::kFloat8E5M2}) {
    CHECK(epsilon(coarse) == 0x1p-7);
  }
  for (const DType dtype : {DType::kInt64, DType::kUInt8, DType::kBool}) {
    CHECK(epsilon(dtype) == 0);
    CHECK_FALSE(is_floating(dtype));
  }
}

TEST_CASE("every dtype has its width in bytes and a short name of its own") {
  const std::map<std::string_view, std::size_t> expected{
      {"f64", 8},    {"f32", 4}, {"f16", 2}, {"bf16", 2}, {"f8e4m3", 1},
      {"f8e5m2", 1}, {"i8", 1},  {"i16", 2}, {"i32", 4},  {"i64", 8},
      {"u8", 1},     {"u16", 2}, {"u32", 4}, {"u64", 8},  {"bool", 1}};
  std::map<std::string_view, std::size_t> found;
  for (const DType dtype : kAllDTypes) found[dtype_short_name(dtype)] = element_bytes(dtype);
  CHECK((found == expected));
}

}  // namespace
}  // namespace ttrace::tensor::dtype_test
