#include <array>
#include <cmath>
#include <cstddef>

#include "judge/replay_rule.h"
#include "support/catch.h"

namespace ttrace::judge {
namespace {

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
