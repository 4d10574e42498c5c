// Rows of few elements, some of which roundings move much further than others.
#include <cmath>

#include "specification/evaluate/judge_expression.h"
#include "specification/primitives/noise.h"
#include "specification/specifications.h"
#include "support/catch.h"
#include "tensor/codec.h"

namespace ttrace::audit::short_rows_test {
namespace {

using tensor::DType;

constexpr std::uint64_t kChannels = 8192;
constexpr float kEps = 1e-5F;

// A batch norm of two values a channel, step by step: [channels, 2] becomes [2, channels, 1].
const std::string kSteps =
    R"(["mean", [0], {"dims": [1], "keep": true}, "float32", [8192, 1]],
       ["subtract", [0, 1], {}, "float32", [8192, 2]],
       ["multiply", [2, 2], {}, "float32", [8192, 2]],
       ["mean", [3], {"dims": [1], "keep": true}, "float32", [8192, 1]],
       ["full", [], {"value": 1e-5}, "float32", [8192, 1]],
       ["add", [4, 5], {}, "float32", [8192, 1]],
       ["rsqrt", [6], {}, "float32", [8192, 1]],
       ["multiply", [2, 7], {}, "float32", [8192, 2]],
       ["permute", [8], {"dims": [1, 0]}, "float32", [2, 8192]],
       ["reshape", [9], {}, "float32", [2, 8192, 1]])";

struct BatchNorm {
  specification::Specification specification;
  specification::Expression expression;
  std::vector<double> x;
  std::vector<double> healthy;  // in binary32

  explicit BatchNorm(std::uint64_t seed)
      : specification(test::one_pattern({R"("dtype": "float32", "shape": [8192, 2])"}, kSteps,
                                        "float32", "[2, 8192, 1]")),
        expression(test::last_expression(specification)),
        x(2 * kChannels),
        healthy(2 * kChannels) {
    const specification::Noise noise(seed);
    for (std::uint64_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>(noise.at(2 * i) + noise.at(2 * i + 1));
    }
    for (std::uint64_t c = 0; c < kChannels; ++c) run_channel(c);
  }

  void run_channel(std::uint64_t c) {
    const auto x0 = static_cast<float>(x[2 * c]);
    const auto x1 = static_cast<float>(x[2 * c + 1]);
    const float mean = (x0 + x1) / 2;
    const float variance = ((x0 - mean) * (x0 - mean) + (x1 - mean) * (x1 - mean)) / 2;
    const float scale = 1 / std::sqrt(variance + kEps);
    healthy[c] = (x0 - mean) * scale;
    healthy[kChannels + c] = (x1 - mean) * scale;
  }

  specification::ExpressionJudgement judge(const std::vector<double>& recorded,
                                           std::uint64_t seed = 7) const {
    specification::ExpressionOptions options;
    options.seed = seed;
    options.context = test::on_threads(1);
    const specification::Value input = specification::Value::of({kChannels, 2}, x);
    return specification::judge_expression(expression, {&input, 1},
                                           specification::Value::of({2, kChannels, 1}, recorded),
                                           DType::kFloat32, options);
  }
};

TEST_CASE("rows of one element are not broken by the size of one random number") {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const BatchNorm norm(seed);
    const specification::ExpressionJudgement judgement = norm.judge(norm.healthy, seed);
    CAPTURE(seed, judgement.norm_share, judgement.row_share, judgement.scale_share);
    CHECK(judgement.follows());
    CHECK_FALSE(judgement.below_bound);
    CHECK(judgement.rows.empty());
  }
}

TEST_CASE("a wrong row of one element is found, with its size") {
  const BatchNorm norm(1);
  std::vector<double> wrong = norm.healthy;
  std::uint64_t first = 0;  // of two channels whose samples are in another order
  while (wrong[first] * wrong[first + 1] > 0) ++first;
  std::swap(wrong[first], wrong[first + 1]);
  const specification::ExpressionJudgement swapped = norm.judge(wrong);
  CHECK_FALSE(swapped.follows());
  CHECK(swapped.rows_beyond == 2);
  wrong = norm.healthy;
  wrong[first] *= 1.001;
  const specification::ExpressionJudgement scaled = norm.judge(wrong);
  CHECK_FALSE(scaled.follows());
  REQUIRE(scaled.rows_beyond == 1);
  CHECK(scaled.rows[0].row == tensor::Shape{0, first});
}

}  // namespace
}  // namespace ttrace::audit::short_rows_test
