#include "specification/evaluate/exact_integers.h"

#include <limits>

#include "base/error.h"
#include "support/catch.h"

namespace ttrace::specification::exact_integers_test {
namespace {

using tensor::DType;

void check(DType dtype, double element) {
  require_exact_integers(Value::of({2}, {0, element}), dtype);
}

TEST_CASE("whole numbers that a double and their type hold are exact") {
  check(DType::kInt64, 9007199254740991.0);
  check(DType::kInt64, -9007199254740992.0);
  check(DType::kInt32, 2147483647.0);
  check(DType::kInt32, -2147483648.0);
  check(DType::kUInt8, 255);
  check(DType::kBool, 1);
  check(DType::kInt64, -std::numeric_limits<double>::infinity());
  check(DType::kFloat32, 1e30);
}

TEST_CASE("whole numbers beyond a double or their type are refused") {
  const std::vector<std::pair<DType, double>> beyond{{DType::kInt64, 9007199254740992.0},
                                                     {DType::kUInt64, 1e19},
                                                     {DType::kInt32, 2147483648.0},
                                                     {DType::kInt32, -2147483649.0},
                                                     {DType::kUInt8, 256},
                                                     {DType::kUInt8, -1},
                                                     {DType::kInt8, 128},
                                                     {DType::kInt16, -32769.0}};
  for (const auto& [dtype, element] : beyond) {
    CAPTURE(tensor::dtype_name(dtype), element);
    CHECK_THROWS_AS(check(dtype, element), base::InputError);
  }
}

}  // namespace
}  // namespace ttrace::specification::exact_integers_test
