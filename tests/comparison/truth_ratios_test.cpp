#include "comparison/tensor_comparison.h"
#include "support/catch.h"

namespace ttrace::comparison {
namespace {

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
}  // namespace ttrace::comparison
