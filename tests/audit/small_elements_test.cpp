// Elements much smaller than others of their row, one of which roundings move further than others.
#include <cmath>

#include "specification/evaluate/judge_expression.h"
#include "specification/primitives/noise.h"
#include "specification/specifications.h"
#include "support/catch.h"

namespace ttrace::audit::small_elements_test {
namespace {

constexpr std::uint64_t kSide = 64;
// One row has some small elements: those of a small factor, and what is left of a difference.
constexpr std::uint64_t kSmall = 12;
constexpr std::uint64_t kLeft = 20;
constexpr float kFactor = 1e-4F;
constexpr float kLeftFactor = 0.02F;

// (x · y + z) · s.
const std::string kSteps = R"(["multiply", [0, 1], {}, "float32", [64, 64]],
                              ["add", [4, 2], {}, "float32", [64, 64]],
                              ["multiply", [5, 3], {}, "float32", [64, 64]])";

struct Differences {
  specification::Specification specification;
  specification::Expression expression;
  std::vector<specification::Value> leaves;
  std::vector<double> healthy;  // in binary32

  explicit Differences(std::uint64_t seed)
      : specification(test::one_pattern(
            std::vector<std::string>(4, R"("dtype": "float32", "shape": [64, 64])"), kSteps,
            "float32", "[64, 64]")),
        expression(test::last_expression(specification)),
        healthy(kSide * kSide) {
    const specification::Noise noise(seed);
    std::vector<std::vector<double>> inputs(4, std::vector<double>(healthy.size()));
    for (std::uint64_t i = 0; i < healthy.size(); ++i) {
      const auto x = static_cast<float>(1.5 + 0.4 * noise.at(2 * i));
      const auto y = static_cast<float>(1.5 + 0.4 * noise.at(2 * i + 1));
      const float product = x * y;
      const float z = i == kLeft ? product * (kFactor / kLeftFactor - 1) : 1;
      const float s = i < kSmall ? kFactor : i == kLeft ? kLeftFactor : 1;
      inputs[0][i] = x;
      inputs[1][i] = y;
      inputs[2][i] = z;
      inputs[3][i] = s;
      healthy[i] = (product + z) * s;
    }
    for (auto& input : inputs)
      leaves.push_back(specification::Value::of({kSide, kSide}, std::move(input)));
  }

  specification::ExpressionJudgement judge(const std::vector<double>& recorded,
                                           std::uint64_t seed) const {
    specification::ExpressionOptions options;
    options.seed = seed;
    options.context = test::on_threads(1);
    return specification::judge_expression(expression, leaves,
                                           specification::Value::of({kSide, kSide}, recorded),
                                           tensor::DType::kFloat32, options);
  }
};

TEST_CASE("what is left of a difference is not broken by the size of one random number") {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const Differences differences(seed);
    const specification::ExpressionJudgement judgement =
        differences.judge(differences.healthy, seed);
    CAPTURE(seed, judgement.norm_share, judgement.band_share);
    CHECK(judgement.follows());
    CHECK_FALSE(judgement.below_bound);
  }
}

TEST_CASE("a wrong small element beside what is left of a difference is found") {
  const Differences differences(1);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<double> wrong = differences.healthy;
    wrong[seed % kSmall] *= 1.5;
    const specification::ExpressionJudgement judgement = differences.judge(wrong, seed);
    CAPTURE(seed, judgement.norm_share, judgement.band_share);
    CHECK_FALSE(judgement.follows());
    CHECK(judgement.small_elements_beyond > 0);
  }
}

}  // namespace
}  // namespace ttrace::audit::small_elements_test
