#include "judge/replay_rule.h"

#include <array>
#include <cmath>
#include <cstddef>
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

// The norm of `n` equal numbers as eight lanes of single precision make it.
double norm_by_lanes(std::uint64_t n, float value) {
  std::array<float, 8> lanes{};
  for (std::uint64_t i = 0; i < n; ++i) lanes[i % lanes.size()] += value * value;
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  return std::sqrt(sum);
}

TEST_CASE("the bound holds for squares added up one after the other in eight lanes") {
  constexpr double kSingle = 0x1p-24;
  for (const std::uint64_t n :
       {std::uint64_t{8}, std::uint64_t{1000}, std::uint64_t{100000}, std::uint64_t{2400000}}) {
    for (const float value : {1.1e-3F, 0.3F, 1.0F, 7.77F}) {
      const double exact = std::sqrt(static_cast<double>(n)) * value;
      const double off = std::abs(norm_by_lanes(n, value) - exact) / exact;
      INFO(n << " × " << value << ": " << off);
      CHECK(off <= norm_rounding(n, kSingle));
    }
  }
}

TEST_CASE("the bound of the measurements on the page") {
  CHECK(norm_rounding(10000, 1) == 316.5);
  CHECK(norm_rounding(0, 0x1p-24) == 0x1p-22);
}

}  // namespace

}  // namespace ttrace::judge
