#include <limits>

#include "comparison/judge_pairs.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::comparison {
namespace {

using trace::Kind;

TensorComparison measured(Kind kind, std::uint64_t step, double d2, double r2) {
  TensorComparison result;
  result.key = test::make_key("w", kind, step);
  result.comparison.emplace();
  result.comparison->measurement.total.sum_d2 = d2;
  result.comparison->measurement.total.sum_r2 = r2;
  return result;
}

TEST_CASE("parameters are apart from the first update on") {
  const auto apart = parameters_apart(
      {measured(Kind::kParam, 0, 4, 100), measured(Kind::kParamAfterStep, 0, 9, 100),
       measured(Kind::kParam, 1, 7, 60), measured(Kind::kParam, 1, 2, 40),
       measured(Kind::kParam, 1, 1e300 * 1e300, 40), measured(Kind::kOutput, 1, 50, 60),
       measured(Kind::kParam, 3, 4, 100)});
  CHECK(apart == std::map<std::uint64_t, double>{{1, 0.3}});
}

TEST_CASE("parameters of no size are not apart") {
  CHECK(
      parameters_apart({measured(Kind::kParamAfterStep, 0, 0, 0), measured(Kind::kParam, 1, 0, 0)})
          .empty());
}

TEST_CASE("the recipe is told by the words of the precision") {
  CHECK(has_fp8("fp8"));
  CHECK(has_fp8("bf16, FP8 hybrid"));
  CHECK_FALSE(has_fp8("bf16"));
  CHECK_FALSE(has_fp8(""));
}

TEST_CASE("what a step begins with does not follow from its parameters") {
  CHECK_FALSE(inherits(Kind::kParam));
  CHECK_FALSE(inherits(Kind::kOptimizerState));
  CHECK(inherits(Kind::kOutput));
  CHECK(inherits(Kind::kMainGrad));
}

}  // namespace
}  // namespace ttrace::comparison
