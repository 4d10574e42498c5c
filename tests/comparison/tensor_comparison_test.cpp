#include "comparison/tensor_comparison.h"

#include <cmath>

#include "report/sample_report.h"
#include "support/catch.h"

namespace ttrace::comparison::tensor_comparison_test {
namespace {

TEST_CASE("the relative error is that of the norms") {
  CHECK(relative_error(test::compared("a", {3, 4}, {3, 4.5}).comparison->measurement) ==
        Catch::Approx(0.1));
  CHECK(relative_error(test::compared("a", {0, 0}, {0, 0}).comparison->measurement) == 0);
  CHECK(std::isinf(relative_error(test::compared("a", {0, 0}, {0, 1}).comparison->measurement)));
}

TEST_CASE("the used share is that of the tolerance") {
  ComparedNumbers numbers = *test::compared("a", {3, 4}, {3, 4.5}).comparison;
  numbers.tolerance.unit_norm = 0.25;
  CHECK(used_share(numbers) == Catch::Approx(0.125));
  numbers.tolerance.unit_norm = 0;
  CHECK(std::isinf(used_share(numbers)));
  CHECK(used_share(*test::compared("a", {0}, {0}).comparison) == 0);
}

}  // namespace
}  // namespace ttrace::comparison::tensor_comparison_test
