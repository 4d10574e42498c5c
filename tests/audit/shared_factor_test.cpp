// Elements that share a factor which was rounded to 16 bits: one random number moves all of them.
#include <cmath>

#include "specification/evaluate/judge_expression.h"
#include "specification/primitives/noise.h"
#include "specification/specifications.h"
#include "support/catch.h"
#include "tensor/codec.h"

namespace ttrace::audit::shared_factor_test {
namespace {

constexpr std::uint64_t kSide = 128;

// x / sqrt(v), where 1 / sqrt(v) is kept in bf16.
const std::string kSteps = R"(["rsqrt", [1], {}, "float32", []],
                              ["cast", [2], {}, "bfloat16", []],
                              ["cast", [3], {}, "float32", []],
                              ["multiply", [0, 4], {}, "float32", [128, 128]])";

specification::ExpressionJudgement judge(std::uint64_t seed, double by) {
  const specification::Specification specification = test::one_pattern(
      {R"("dtype": "float32", "shape": [128, 128])", R"("dtype": "float32", "shape": [])"}, kSteps,
      "float32", "[128, 128]");
  const specification::Expression expression = test::last_expression(specification);
  const specification::Noise noise(seed);
  const double variance = static_cast<float>(2 + noise.at(0));
  const double factor = by * tensor::round_to(tensor::DType::kBFloat16, 1 / std::sqrt(variance));
  std::vector<double> x(kSide * kSide);
  std::vector<double> recorded(x.size());
  for (std::uint64_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(noise.at(i + 1));
    recorded[i] = static_cast<float>(x[i] * factor);
  }
  std::vector<specification::Value> leaves{specification::Value::of({kSide, kSide}, std::move(x)),
                                           specification::Value::of({}, {variance})};
  specification::ExpressionOptions options;
  options.seed = seed;
  options.context = test::on_threads(1);
  return specification::judge_expression(expression, leaves,
                                         specification::Value::of({kSide, kSide}, recorded),
                                         tensor::DType::kFloat32, options);
}

TEST_CASE("a rounded factor that all elements share is not broken by one random number") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const specification::ExpressionJudgement judgement = judge(seed, 1);
    CAPTURE(seed, judgement.norm_share, judgement.scale_share);
    CHECK(judgement.follows());
  }
}

TEST_CASE("a wrong factor beside a rounded one is found") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const specification::ExpressionJudgement judgement = judge(seed, 1.05);
    CAPTURE(seed, judgement.norm_share, judgement.scale_share);
    CHECK_FALSE(judgement.follows());
  }
}

}  // namespace
}  // namespace ttrace::audit::shared_factor_test
