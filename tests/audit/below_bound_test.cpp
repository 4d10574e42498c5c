// Bounds that are as large as what they judge, and elements that are small beside others.
#include <cmath>
#include <limits>

#include "specification/evaluate/bands.h"
#include "specification/evaluate/judge_expression.h"
#include "specification/primitives/noise.h"
#include "specification/specifications.h"
#include "support/catch.h"
#include "tensor/codec.h"

namespace ttrace::audit::below_bound_test {
namespace {

using tensor::DType;

constexpr std::uint64_t kRows = 64;
constexpr std::uint64_t kColumns = 64;
const std::string kInput = R"("dtype": "float32", "shape": [64, 64])";

std::vector<double> normal(std::uint64_t seed) {
  const specification::Noise noise(seed);
  std::vector<double> numbers(kRows * kColumns);
  for (std::uint64_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = tensor::round_to(DType::kFloat32, noise.at(2 * i) + noise.at(2 * i + 1));
  }
  return numbers;
}

specification::Value matrix(std::vector<double> numbers) {
  for (double& number : numbers) number = tensor::round_to(DType::kFloat32, number);
  return specification::Value::of({kRows, kColumns}, std::move(numbers));
}

specification::ExpressionJudgement judge(const std::string& nodes, const std::vector<double>& input,
                                         const std::vector<double>& recorded) {
  const specification::Specification specification =
      test::one_pattern({kInput}, nodes, "float32", "[64, 64]");
  specification::Expression expression = test::last_expression(specification);
  expression.leaves.front().exact = true;
  const std::vector<specification::Value> leaves{matrix(input)};
  specification::ExpressionOptions options;
  options.context = test::on_threads(1);
  return specification::judge_expression(expression, leaves, matrix(recorded), DType::kFloat32,
                                         options);
}

// x + amount - amount.
std::string there_and_back(const std::string& amount) {
  return base::concat(R"(["full", [], {"value": )", amount, R"(}, "float32", [64, 64]],
                          ["add", [0, 1], {}, "float32", [64, 64]],
                          ["subtract", [2, 1], {}, "float32", [64, 64]])");
}

TEST_CASE("a bound as large as the value judges nothing, unless the value is equal to the bit") {
  const std::vector<double> x = normal(1);
  std::vector<double> negated = x;
  for (double& number : negated) number = -number;
  for (const char* amount : {"1e10", "1e30", "1e200", "1e300"}) {
    INFO(amount);
    CHECK(judge(there_and_back(amount), x, negated).below_bound);
    CHECK(judge(there_and_back(amount), x, std::vector<double>(x.size(), 0)).below_bound);
  }
  const specification::ExpressionJudgement narrow = judge(there_and_back("1"), x, x);
  CHECK_FALSE(narrow.below_bound);
  CHECK(narrow.follows());
  CHECK_FALSE(judge(there_and_back("1"), x, negated).follows());
}

TEST_CASE("zeros that are zero whatever is rounded are judged") {
  const std::vector<double> zeros(kRows * kColumns, 0);
  const std::string times_zero = R"(["full", [], {"value": 0}, "float32", [64, 64]],
                                    ["multiply", [0, 1], {}, "float32", [64, 64]])";
  const specification::ExpressionJudgement judgement = judge(times_zero, normal(1), zeros);
  CHECK(judgement.equal_bits);
  CHECK_FALSE(judgement.below_bound);
  CHECK(judgement.follows());
  CHECK_FALSE(judge(R"(["relu", [0], {}, "float32", [64, 64]])", zeros, zeros).below_bound);
}

TEST_CASE("zeros that a product makes of zeros in 16 bits are judged") {
  // The gradient of a bias that a kernel of convolutions makes.
  const specification::Specification specification =
      test::one_pattern({R"("dtype": "bfloat16", "shape": [64, 8])"},
                        R"(["full", [], {"value": 1}, "bfloat16", [1, 64]],
         ["matmul", [1, 0], {}, "bfloat16", [1, 8]])",
                        "bfloat16", "[1, 8]");
  const specification::Expression expression = test::last_expression(specification);
  const auto judged = [&](double input) {
    const specification::Value x = specification::Value::full({64, 8}, input);
    return specification::judge_expression(
        expression, {&x, 1}, specification::Value::full({1, 8}, 0), DType::kBFloat16, {});
  };
  CHECK_FALSE(judged(0).below_bound);
  CHECK(judged(0).follows());
  CHECK_FALSE(judged(1e-30).follows());
}

// The gradient of a bias in bf16, of rows that cancel: rows 32 to 63 are the first 32 with the
// other sign, and `rest` on top of the first.
struct CancellingRows {
  explicit CancellingRows(double rest) {
    const specification::Noise noise(5);
    std::vector<double> numbers(kRows * kColumns);
    for (std::uint64_t i = 0; i < numbers.size() / 2; ++i) {
      numbers[i] = tensor::round_to(DType::kBFloat16, 1 + noise.at(i));
      numbers[i + numbers.size() / 2] = -numbers[i];
    }
    for (std::uint64_t c = 0; c < kColumns; ++c) numbers[c] += rest;
    for (double& number : numbers) number = tensor::round_to(DType::kBFloat16, number);
    for (std::uint64_t i = 0; i < numbers.size(); ++i) sums[i % kColumns] += numbers[i];
    rows = specification::Value::of({kRows, kColumns}, std::move(numbers));
  }

  // Of a gradient whose every second element is multiplied by a factor.
  specification::ExpressionJudgement judge(double factor) const {
    const specification::Specification specification =
        test::one_pattern({R"("dtype": "bfloat16", "shape": [64, 64])"},
                          R"(["cast", [0], {}, "float32", [64, 64]],
                             ["sum", [1], {"dims": [0], "keep": false}, "float32", [64]],
                             ["cast", [2], {}, "bfloat16", [64]])",
                          "bfloat16", "[64]");
    specification::Expression expression = test::last_expression(specification);
    for (specification::Leaf& leaf : expression.leaves) leaf.exact = exact;
    std::vector<double> recorded = sums;
    for (std::uint64_t c = 1; c < kColumns; c += 2) recorded[c] *= factor;
    for (double& sum : recorded) sum = tensor::round_to(DType::kBFloat16, sum);
    return specification::judge_expression(
        expression, {&rows, 1}, specification::Value::of({kColumns}, std::move(recorded)),
        DType::kBFloat16, {});
  }

  specification::Value rows;
  std::vector<double> sums = std::vector<double>(kColumns);
  bool exact = true;
};

TEST_CASE("where inputs are exact a sum of rows that cancel is judged") {
  CancellingRows rows(0.02);
  // Half of the elements are off by a rounding: what is equal to the bit would be judged anyway.
  CHECK_FALSE(rows.judge(1.004).equal_bits);
  CHECK_FALSE(rows.judge(1.004).below_bound);
  CHECK(rows.judge(1.004).share < 0.8);
  // Another one is not accused, since the operation may round inside in other ways.
  CHECK(rows.judge(1.05).below_bound);
  CHECK(rows.judge(1.05).follows());

  rows.exact = false;
  CHECK(rows.judge(1.004).below_bound);
  // Of sums that do not cancel 5 % are found in both cases.
  CHECK_FALSE(CancellingRows(2).judge(1.05).follows());
}

TEST_CASE("a mask does not hide what is beside it") {
  for (const double mask : {-1e4, -1e9, -1e30, -std::numeric_limits<double>::infinity()}) {
    std::string values;
    for (std::uint64_t c = 0; c < kColumns; ++c) {
      values += c > 0 ? ", " : "";
      values += c % 2 == 0 ? "0" : std::isinf(mask) ? "\"-inf\"" : base::exact_number(mask);
    }
    const std::string nodes = base::concat(R"(["literal", [], {"values": [)", values,
                                           R"(]}, "float32", [64]],
                                             ["add", [0, 1], {}, "float32", [64, 64]])");
    const std::vector<double> x = normal(1);
    std::vector<double> healthy = x;
    for (std::uint64_t i = 1; i < healthy.size(); i += 2) healthy[i] += mask;
    std::vector<double> wrong = healthy;
    wrong[40] += 1e-2;
    INFO(mask);
    CHECK(judge(nodes, x, healthy).share <= 0.7);
    CHECK_FALSE(judge(nodes, x, wrong).follows());
  }
}

TEST_CASE("values that are NaN on both sides are counted") {
  std::vector<double> x = normal(1);
  for (std::uint64_t i = 0; i < 100; ++i) x[i] = -1;
  std::vector<double> roots = x;
  std::vector<double> squares = x;
  for (double& number : roots) number = std::sqrt(std::abs(number));
  for (double& number : squares) number = std::abs(number);
  for (std::uint64_t i = 0; i < 100; ++i) squares[i] = -1;
  for (std::uint64_t i = 0; i < 100; ++i) roots[i] = std::numeric_limits<double>::quiet_NaN();
  const specification::ExpressionJudgement judgement =
      judge(R"(["sqrt", [0], {}, "float32", [64, 64]])", squares, roots);
  CHECK(judgement.endless == 100);
  CHECK(judgement.follows());
}

TEST_CASE("bands are of eight octaves, relative to the largest of the row") {
  const auto band = [](double value, double largest) {
    return specification::band_of(specification::exponent_of(value),
                                  specification::exponent_of(largest));
  };
  CHECK(band(1, 1) == 0);
  CHECK(band(0x1p-7, 1) == 0);
  CHECK(band(-0x1p-8, 1) == 1);
  CHECK(band(1, 0x1p30) == 3);
  CHECK(band(0, 1) == specification::kBands - 1);
  CHECK(band(0, 0) == 0);
  CHECK_FALSE(specification::has_small_elements(matrix(normal(3))));
  std::vector<double> masked = normal(3);
  for (std::uint64_t i = 0; i < masked.size(); i += 3) masked[i] = -1e9;
  CHECK(specification::has_small_elements(matrix(masked)));
}

}  // namespace
}  // namespace ttrace::audit::below_bound_test
