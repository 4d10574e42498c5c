#include "judge/replay_rule.h"

#include <limits>

#include "support/catch.h"

namespace ttrace::judge {
namespace {

TEST_CASE("a replay allows its difference exactly where every element is within its bound") {
  for (const double difference : {1e-300, 3e-7, 0.1, 7.0}) {
    for (const double ratio : {1e-9, 0.3, 1.0, 1 + 0x1p-52, 3.0, 1e6}) {
      const Tolerance made = replay_tolerance({difference, 1, ratio, "adamw"}, 0x1p-23);
      CAPTURE(difference, ratio);
      CHECK((difference <= made.allowed_norm()) == (ratio <= 1));
      CHECK(passing_multiplier(made, difference) == Approx(ratio));
    }
  }
}

TEST_CASE("a replay without difference allows its bounds, one that allows nothing nothing") {
  const Tolerance same = replay_tolerance({0, 0.25, 0, "sgd"}, 0x1p-23);
  CHECK(same.allowed_norm() == 0.25);
  CHECK(same.formula == "replay of sgd");
  CHECK(rule_name(same.rule) == "replay");
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(replay_tolerance({0.5, 0, infinity, "no update"}, 0x1p-23).allowed_norm() == 0);
}

}  // namespace
}  // namespace ttrace::judge
