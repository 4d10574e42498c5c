#include "report/place_words.h"

#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::report::place_words_test {
namespace {

using localize::Phase;
using localize::PlaceKind;

TEST_CASE("phases in words") {
  CHECK(describe_phase(Phase::kParameter) == "before the step, parameters");
  CHECK(describe_phase(Phase::kSynchronisation) == "backward, gradient synchronisation");
  CHECK(describe_phase(Phase::kOptimizer) == "optimizer");
  for (const trace::Kind kind : trace::kAllKinds) {
    CHECK_FALSE(describe_phase(localize::phase_of(test::make_key("m", kind))).empty());
  }
}

TEST_CASE("places in words") {
  CHECK(describe_place({PlaceKind::kModule, "layers.0"}, "model.py:1 f") == "layers.0");
  CHECK(describe_place({PlaceKind::kBetween, "layers.0"}, "model.py:61 Layer.forward") ==
        "between the modules of layers.0 (model.py:61 Layer.forward)");
  CHECK(describe_place({PlaceKind::kBetween, "layers.0"}, "") == "between the modules of layers.0");
  CHECK(describe_place({PlaceKind::kSynchronisation, "tp"}, "") ==
        "the gradient synchronisation over tp");
  CHECK(describe_place({PlaceKind::kSynchronisation, ""}, "") == "the gradient synchronisation");
  CHECK(describe_place({PlaceKind::kOptimizer, ""}, "") == "the optimizer");
}

}  // namespace
}  // namespace ttrace::report::place_words_test
