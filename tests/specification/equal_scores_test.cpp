// Indices that a topk or a sort may name, where scores are equal.
#include "specification/evaluate/equal_scores.h"

#include <limits>

#include "specification/evaluate/judge_expression.h"
#include "specification/specifications.h"
#include "support/catch.h"

namespace ttrace::specification::equal_scores_test {
namespace {

using tensor::DType;

constexpr double kMasked = -std::numeric_limits<double>::infinity();

ExpressionJudgement judge(const std::string& input, const std::string& nodes,
                          const std::string& shape, const Value& scores,
                          std::vector<double> chosen) {
  const Specification specification = test::one_pattern({input}, nodes, "int64", shape);
  const Expression expression = test::last_expression(specification);
  const Value recorded = Value::of(expression.steps.back().node->shape, std::move(chosen));
  return judge_expression(expression, {&scores, 1}, recorded, DType::kInt64, {});
}

// Four of six.
ExpressionJudgement top_four(std::vector<double> scores, std::vector<double> chosen) {
  return judge(R"("dtype": "bfloat16", "shape": [6])",
               R"(["top_indices", [0], {"dim": 0, "k": 4, "largest": true}, "int64", [4]])", "[4]",
               Value::of({6}, std::move(scores)), std::move(chosen));
}

TEST_CASE("any of several equal scores may be chosen") {
  const std::vector<double> masked{3, 5, kMasked, kMasked, kMasked, kMasked};
  CHECK(top_four(masked, {1, 0, 2, 3}).equal_bits);
  for (const auto& chosen :
       std::vector<std::vector<double>>{{1, 0, 3, 2}, {1, 0, 5, 4}, {1, 0, 2, 5}}) {
    const ExpressionJudgement judgement = top_four(masked, chosen);
    CHECK(judgement.follows());
    CHECK(judgement.unequal == 0);
    CHECK_FALSE(judgement.equal_bits);
    CHECK_FALSE(judgement.below_bound);
  }
  CHECK(top_four({0, 7, 0, 0, 0, 0}, {1, 5, 0, 3}).follows());
}

TEST_CASE("an index of another score is none of them") {
  const std::vector<double> masked{3, 5, kMasked, kMasked, kMasked, kMasked};
  for (const auto& chosen :
       std::vector<std::vector<double>>{{0, 1, 2, 3}, {1, 2, 0, 3}, {1, 5, 4, 3}, {5, 4, 3, 2}}) {
    const ExpressionJudgement judgement = top_four(masked, chosen);
    CHECK_FALSE(judgement.follows());
    CHECK(judgement.unequal > 0);
  }
  CHECK_FALSE(top_four({0, 7, 1, 0, 0, 0}, {1, 5, 0, 3}).follows());
}

TEST_CASE("no element is chosen twice, and none that is not there") {
  const std::vector<double> masked{3, 5, kMasked, kMasked, kMasked, kMasked};
  for (const auto& chosen : std::vector<std::vector<double>>{
           {1, 0, 3, 3}, {1, 0, 2, 2}, {1, 0, 2, 6}, {1, 0, 2, -1}, {1, 0, 2, 4.5}}) {
    CHECK_FALSE(top_four(masked, chosen).follows());
  }
}

TEST_CASE("equal scores do not excuse what is beside them") {
  // Simulated roundings change the order of equal numbers, which would allow another index.
  const std::vector<double> scores{9, 8, 2, 2, 2, 2};
  CHECK(top_four(scores, {0, 1, 5, 4}).follows());
  CHECK_FALSE(top_four(scores, {1, 0, 5, 4}).follows());
}

TEST_CASE("roundings explain an index whose score is near, and no other") {
  // 9 and 9 - 2^-10 may change places in bf16, where 3 and 2 cannot, nor may one be named twice.
  std::vector<double> scores{9, 9 - 0x1p-10, 3, 3 - 0x1p-10, 2, 1};
  CHECK(top_four(scores, {0, 1, 2, 3}).equal_bits);
  CHECK(top_four(scores, {1, 0, 3, 2}).follows());
  CHECK_FALSE(top_four(scores, {0, 1, 2, 5}).follows());
  CHECK_FALSE(top_four(scores, {2, 1, 0, 3}).follows());
  CHECK_FALSE(top_four(scores, {0, 0, 2, 3}).follows());
  CHECK_FALSE(top_four(scores, {0, 1, 2, 6}).follows());
}

TEST_CASE("choices are seen through what moves them") {
  // Of two lines along the first dimension; the best is cut off, and the rest transposed.
  const std::string nodes =
      R"(["top_indices", [0], {"dim": 0, "k": 3, "largest": false}, "int64", [3, 2]],
         ["slice", [1], {"dim": 0, "start": 1, "stop": 3, "step": 1}, "int64", [2, 2]],
         ["permute", [2], {"dims": [1, 0]}, "int64", [2, 2]],
         ["cast", [3], {}, "int32", [2, 2]],
         ["reshape", [4], {}, "int64", [4]])";
  const Value scores = Value::of({4, 2}, {1, 6, 2, 6, 2, 6, 2, 4});
  const auto judged = [&](std::vector<double> chosen) {
    return judge(R"("dtype": "float32", "shape": [4, 2])", nodes, "[4]", scores, chosen).follows();
  };
  CHECK(judged({1, 2, 0, 1}));
  CHECK(judged({3, 1, 2, 0}));
  CHECK_FALSE(judged({0, 1, 2, 0}));
  CHECK_FALSE(judged({3, 1, 3, 0}));
  CHECK_FALSE(judged({3, 3, 2, 0}));
}

TEST_CASE("sorted whole numbers may be in any order of equal ones") {
  const std::string input = R"("dtype": "int64", "shape": [2, 3])";
  const std::string nodes =
      R"(["sort_indices", [0], {"dim": 1, "descending": false}, "int64", [2, 3]])";
  const Value ids = Value::of({2, 3}, {4, 1, 4, 0, 0, 0});
  CHECK(judge(input, nodes, "[2, 3]", ids, {1, 2, 0, 2, 0, 1}).follows());
  CHECK_FALSE(judge(input, nodes, "[2, 3]", ids, {2, 1, 0, 2, 0, 1}).follows());
  CHECK_FALSE(judge(input, nodes, "[2, 3]", ids, {1, 2, 0, 2, 2, 1}).follows());
}

}  // namespace
}  // namespace ttrace::specification::equal_scores_test
