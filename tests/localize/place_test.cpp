#include "localize/place.h"

#include "localize/two_runs.h"
#include "support/catch.h"

namespace ttrace::localize::place_test {
namespace {

using trace::Kind;

struct Named {
  PlaceKind kind;
  std::string of;
};

void check_place(Kind kind, const std::string& name, const Named& expected,
                 const std::string& axis = "") {
  const Place place = place_of(ttrace::test::make_key(name, kind), true, axis);
  CAPTURE(name);
  CHECK(place.kind == expected.kind);
  CHECK(place.of == expected.of);
}

TEST_CASE("a place is a module, between modules, the synchronisation or the optimizer") {
  check_place(Kind::kOutput, "layers.0.attn", {PlaceKind::kModule, "layers.0.attn"});
  check_place(Kind::kParamGrad, "layers.0.fc.weight", {PlaceKind::kModule, "layers.0.fc"});
  check_place(Kind::kInput, "layers.0.fc[mask]", {PlaceKind::kBetween, "layers.0"});
  check_place(Kind::kInput, "head", {PlaceKind::kBetween, "(model)"});
  check_place(Kind::kInput, "(model)[labels]", {PlaceKind::kModule, "(model)"});
  check_place(Kind::kGradOutput, "layers.0.norm", {PlaceKind::kBetween, "layers.0"});
  check_place(Kind::kGradOutput, "(model)", {PlaceKind::kModule, "(model)"});
  check_place(Kind::kGradOutput, "loss", {PlaceKind::kModule, "loss"});
  check_place(Kind::kMainGrad, "head.weight", {PlaceKind::kSynchronisation, "dp"}, "dp");
  check_place(Kind::kGradNorm, "grad_norm", {PlaceKind::kOptimizer, ""});
  check_place(Kind::kParamAfterStep, "head.weight", {PlaceKind::kOptimizer, ""});
}

TEST_CASE("without raw gradients, a wrong main gradient may be a fault of the backward") {
  const Place place = place_of(ttrace::test::make_key("head.weight", Kind::kMainGrad), false, "");
  CHECK(place.kind == PlaceKind::kModule);
  CHECK(place.of == "head");
}

TEST_CASE("a state of the optimizer belongs to the module of its parameter") {
  CHECK(module_of(ttrace::test::make_key("a.b.weight.exp_avg", Kind::kOptimizerState)) == "a.b");
  CHECK(module_of(ttrace::test::make_key("weight.exp_avg", Kind::kOptimizerState)) == "(model)");
  CHECK(module_of(ttrace::test::make_key("weight", Kind::kParam)) == "(model)");
}

}  // namespace
}  // namespace ttrace::localize::place_test
