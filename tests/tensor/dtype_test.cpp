#include "tensor/dtype.h"

#include "support/catch.h"

namespace ttrace::tensor {
namespace {

TEST_CASE("every dtype is found again by its name") {
  for (const DType dtype : kAllDTypes) CHECK(parse_dtype(dtype_name(dtype)) == dtype);
  CHECK_FALSE(parse_dtype("float").has_value());
  CHECK_FALSE(parse_dtype("").has_value());
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

}  // namespace
}  // namespace ttrace::tensor
