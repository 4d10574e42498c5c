#include "tolerance/coherence.h"

#include <cmath>
#include <limits>

#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::tolerance {
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
    known.add(make_key("layers." + std::to_string(layer) + ".fc", Kind::kOutput), 0.1, 1000);
    known.add(make_key("layers." + std::to_string(layer) + ".norm", Kind::kOutput), 0.3, 1000);
  }
  // 24 of its own, 8 of the kind's: (24 · 0.01 + 8 · 0.05) / 32.
  const auto found = known.of(make_key("layers.99.fc", Kind::kOutput));
  REQUIRE(found);
  CHECK(*found == Catch::Approx(std::sqrt((24 * 0.01 + 8 * 0.05) / 32)));
  // One that none is like goes by the kind.
  CHECK(*known.of(make_key("head", Kind::kOutput)) == Catch::Approx(std::sqrt(0.05)));
  CHECK_FALSE(known.of(make_key("layers.0.fc", Kind::kParamGrad)));
}

TEST_CASE("a single tensor whose noise lies across it by chance does not decide") {
  Coherence known;
  known.add(make_key("a", Kind::kLoss), 1e-6, 1000);
  for (int i = 0; i < 100; ++i) known.add(make_key("b", Kind::kLoss), 0.2, 1000);
  CHECK(*known.of(make_key("a", Kind::kLoss)) > 0.15);
}

TEST_CASE(
    "tensors of few elements do not count for their kind, and what is not finite not at all") {
  Coherence known;
  known.add(make_key("norm", Kind::kGradNorm), 1, 1);
  CHECK_FALSE(known.of(make_key("norm", Kind::kGradNorm)));
  known.add(make_key("w", Kind::kOutput), std::numeric_limits<double>::infinity(), 100);
  CHECK_FALSE(known.of(make_key("w", Kind::kOutput)));
}

}  // namespace
}  // namespace ttrace::tolerance
