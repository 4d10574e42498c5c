#include "localize/phase.h"

#include <set>

#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::localize::phase_test {
namespace {

using trace::Kind;

TEST_CASE("every kind has a phase, and the phases follow one step") {
  const auto phase = [](Kind kind, const std::string& name = "m") {
    return phase_of(test::make_key(name, kind));
  };
  CHECK(phase(Kind::kParam) == Phase::kParameter);
  CHECK(phase(Kind::kBuffer) == Phase::kParameter);
  CHECK(phase(Kind::kOptimizerState) == Phase::kParameter);
  CHECK(phase(Kind::kInput, "(model)") == Phase::kInput);
  CHECK(phase(Kind::kInput, "(model)[1]") == Phase::kInput);
  CHECK(phase(Kind::kInput) == Phase::kForward);
  CHECK(phase(Kind::kOutput) == Phase::kForward);
  CHECK(phase(Kind::kIndex) == Phase::kForward);
  CHECK(phase(Kind::kScalar) == Phase::kForward);
  CHECK(phase(Kind::kLoss) == Phase::kLoss);
  CHECK(phase(Kind::kGradOutput) == Phase::kBackward);
  CHECK(phase(Kind::kGradInput) == Phase::kBackward);
  CHECK(phase(Kind::kParamGrad) == Phase::kBackward);
  CHECK(phase(Kind::kMainGrad) == Phase::kSynchronisation);
  CHECK(phase(Kind::kGradNorm) == Phase::kGradNorm);
  CHECK(phase(Kind::kOptimizerState) == Phase::kParameter);  // what the step begins with
  CHECK(phase(Kind::kParamAfterStep) == Phase::kOptimizer);
  CHECK(Phase::kForward < Phase::kLoss);
  CHECK(Phase::kLoss < Phase::kBackward);
  CHECK(Phase::kBackward < Phase::kSynchronisation);
  CHECK(Phase::kSynchronisation < Phase::kGradNorm);
}

TEST_CASE("phases have names for the JSON report") {
  CHECK(phase_name(Phase::kSynchronisation) == "synchronisation");
  std::set<std::string_view> names;
  for (const Kind kind : trace::kAllKinds) {
    const Phase phase = phase_of(test::make_key("m", kind));
    CHECK_FALSE(phase_name(phase).empty());
    names.insert(phase_name(phase));
  }
  CHECK(names.size() == 8);  // all but the input of the model
}

}  // namespace
}  // namespace ttrace::localize::phase_test
