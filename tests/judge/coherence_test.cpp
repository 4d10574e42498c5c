#include "judge/coherence.h"

#include <cmath>
#include <limits>

#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::judge {
namespace {

using test::make_key;
using trace::Kind;

TEST_CASE("numbers do not count in a pattern, words with numbers do") {
  CHECK(name_pattern("layers.3.mlp.fc1") == "layers.*.mlp.fc1");
  CHECK(name_pattern("layers.10.experts.7.fc2") == "layers.*.experts.*.fc2");
  CHECK(name_pattern("router[1]") == "router[1]");
  CHECK(name_pattern("0") == "*");
  CHECK(name_pattern("").empty());
  CHECK(name_pattern("a..2.") == "a..*.");
}

TEST_CASE("tensors that are alike lend each other what they know") {
  Coherence known;
  for (int layer = 0; layer < 24; ++layer) {
    known.add(make_key("layers." + std::to_string(layer) + ".fc", Kind::kOutput), {0.1}, 1000);
    known.add(make_key("layers." + std::to_string(layer) + ".norm", Kind::kOutput), {0.3}, 1000);
  }
  // 24 of its own, 8 of the kind's: (24 · 0.01 + 8 · 0.05) / 32.
  const auto found = known.of(make_key("layers.99.fc", Kind::kOutput), 0);
  REQUIRE(found.size() == 1);
  CHECK(found[0] == Catch::Approx(std::sqrt((24 * 0.01 + 8 * 0.05) / 32)));
  // One that none is like goes by the kind.
  CHECK(known.of(make_key("head", Kind::kOutput), 0)[0] == Catch::Approx(std::sqrt(0.05)));
  CHECK(known.of(make_key("layers.0.fc", Kind::kParamGrad), 0).empty());
}

TEST_CASE("parts of a dimension are alike too, and those of a kind in any") {
  Coherence known;
  for (int i = 0; i < 8; ++i) known.add(make_key("a", Kind::kOutput), {0.1, 0.4, 0}, 1000);
  const auto found = known.of(make_key("a", Kind::kOutput), 2);
  CHECK(found[1] == Catch::Approx(0.4));
  CHECK(found[2] == Catch::Approx(0.4));
  CHECK(known.of(make_key("other", Kind::kOutput), 1)[1] == Catch::Approx(0.4));
}

TEST_CASE("what an optimizer keeps has no scale to judge") {
  Coherence known;
  known.add(make_key("w.exp_avg_sq", Kind::kOptimizerState), {0.1}, 1000);
  CHECK(known.of(make_key("w.exp_avg_sq", Kind::kOptimizerState), 0).empty());
}

TEST_CASE("a single tensor whose noise lies across it by chance does not decide") {
  Coherence known;
  known.add(make_key("a", Kind::kLoss), {1e-6}, 1000);
  for (int i = 0; i < 100; ++i) known.add(make_key("b", Kind::kLoss), {0.2}, 1000);
  CHECK(known.of(make_key("a", Kind::kLoss), 0)[0] > 0.15);
}

TEST_CASE(
    "tensors of few elements do not count for their kind, and what is not finite not at all") {
  Coherence known;
  known.add(make_key("norm", Kind::kGradNorm), {1}, 1);
  CHECK(known.of(make_key("norm", Kind::kGradNorm), 0).empty());
  known.add(make_key("w", Kind::kOutput), {std::numeric_limits<double>::infinity()}, 100);
  CHECK(known.of(make_key("w", Kind::kOutput), 0).empty());
}

}  // namespace
}  // namespace ttrace::judge
