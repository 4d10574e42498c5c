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

TensorTruth truth_of(double candidate, double reference, std::uint64_t elements = 4) {
  TensorTruth truth;
  truth.errors.candidate_error_norm = candidate;
  truth.errors.reference_error_norm = reference;
  truth.errors.truth_norm = 2;
  truth.errors.elements = elements;
  return truth;
}

TEST_CASE("the ratios come to a median and a worst, the first of equals") {
  const TensorTruth one = truth_of(1, 1);
  const TensorTruth three = truth_of(3, 1);
  const TensorTruth other_three = truth_of(6, 2);
  TruthRatios ratios = truth_ratios({&one, nullptr, &three, &other_three});
  CHECK(ratios.compared == 3);
  CHECK(ratios.median == std::optional(3.0));
  CHECK(ratios.worst == std::optional(3.0));
  CHECK(ratios.worst_at == 2);
  ratios = truth_ratios({&three, &one});
  CHECK(ratios.median == std::optional(2.0));
  CHECK(ratios.worst_at == 0);
}

TEST_CASE("references without error and tensors without numbers are counted apart") {
  const TensorTruth exact = truth_of(0, 0);
  const TensorTruth only_candidate = truth_of(1, 0);
  const TensorTruth nothing = truth_of(0, 0, 0);
  const TruthRatios ratios = truth_ratios({&exact, &only_candidate, &nothing});
  CHECK(ratios.compared == 3);
  CHECK(ratios.reference_exact == 2);
  CHECK(ratios.unusable == 1);
  CHECK_FALSE(ratios.median);
  CHECK_FALSE(ratios.worst);
}

TEST_CASE("no tensors have no ratios") {
  CHECK(truth_ratios({}).compared == 0);
  CHECK_FALSE(truth_ratios({nullptr}).worst);
}

}  // namespace
}  // namespace ttrace::comparison::tensor_comparison_test
