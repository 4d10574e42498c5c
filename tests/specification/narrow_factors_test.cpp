#include "specification/evaluate/narrow_factors.h"

#include <cmath>
#include <vector>

#include "base/refusal.h"
#include "specification/evaluate/judge_expression.h"
#include "specification/primitives/noise.h"
#include "specification/specifications.h"
#include "support/catch.h"
#include "tensor/codec.h"

namespace ttrace::specification::narrow_factors_test {
namespace {

using tensor::DType;

constexpr std::uint64_t kSize = 64;
const std::vector<std::string> kInputs{R"("dtype": "float32", "shape": [64, 64])",
                                       R"("dtype": "float32", "shape": [64, 64])"};
const trace::ProductFacts kAll{DType::kTensorFloat32, DType::kTensorFloat32};

std::string product_of_inputs(const std::string& attributes, const std::string& dtype = "float32") {
  return R"(["matmul", [0, 1], {)" + attributes + R"(}, ")" + dtype + R"(", [64, 64]])";
}

const std::string kMatmul = R"("factors": "matmul")";
const std::string kConvolution = R"("factors": "convolution")";

double to_tf32(double value) {
  const double scale = std::exp2(10 - std::ilogb(value));
  return std::nearbyint(value * scale) / scale;
}

std::vector<double> numbers(std::uint64_t seed) {
  std::vector<double> found(kSize * kSize);
  const Noise noise(seed);
  for (std::uint64_t i = 0; i < found.size(); ++i) {
    found[i] = tensor::round_to(DType::kFloat32, noise.at(i));
  }
  return found;
}

std::vector<double> multiplied(const std::vector<double>& x, const std::vector<double>& y) {
  std::vector<double> found(kSize * kSize);
  for (std::uint64_t i = 0; i < kSize; ++i) {
    for (std::uint64_t j = 0; j < kSize; ++j) {
      float sum = 0;
      for (std::uint64_t k = 0; k < kSize; ++k) {
        sum += static_cast<float>(to_tf32(x[i * kSize + k]) * to_tf32(y[k * kSize + j]));
      }
      found[i * kSize + j] = static_cast<double>(sum);
    }
  }
  return found;
}

ExpressionJudgement judged(const std::string& nodes, const std::vector<double>& recorded,
                           const trace::ProductFacts& products, Products how) {
  const Specification specification = test::one_pattern(kInputs, nodes, "float32", "[64, 64]");
  Expression expression = test::last_expression(specification);
  NarrowFactors narrow(products);
  narrow.round_in(expression);
  for (Leaf& leaf : expression.leaves) leaf.exact = true;
  const std::vector<Value> leaves{Value::of({kSize, kSize}, numbers(1)),
                                  Value::of({kSize, kSize}, numbers(2))};
  ExpressionOptions options;
  options.products = how;
  options.seed = 1;
  options.context = test::on_threads(1);
  return judge_expression(expression, leaves, Value::of({kSize, kSize}, recorded), DType::kFloat32,
                          options);
}

TEST_CASE("a product of rounded factors follows where the run says that it rounds them") {
  const Products how = GENERATE(Products::kProbed, Products::kExact);
  const std::vector<double> recorded = multiplied(numbers(1), numbers(2));
  CHECK_FALSE(judged(product_of_inputs(kMatmul), recorded, {}, how).follows());
  const ExpressionJudgement found = judged(product_of_inputs(kMatmul), recorded, kAll, how);
  CAPTURE(found.share);
  CHECK(found.follows());
  CHECK(found.share > 0.1);  // no wider than it need be
}

TEST_CASE("a fault that is larger than the rounding of the factors is found") {
  const Products how = GENERATE(Products::kProbed, Products::kExact);
  std::vector<double> recorded = multiplied(numbers(1), numbers(2));
  for (double& element : recorded) element *= 1.005;
  CHECK_FALSE(judged(product_of_inputs(kMatmul), recorded, kAll, how).follows());
}

TEST_CASE("each setting counts for its own products") {
  const std::vector<double> recorded = multiplied(numbers(1), numbers(2));
  const trace::ProductFacts convolutions{std::nullopt, DType::kTensorFloat32};
  const auto follows = [&](const std::string& attributes, const trace::ProductFacts& products) {
    return judged(product_of_inputs(attributes), recorded, products, Products::kExact).follows();
  };
  CHECK(follows(kConvolution, convolutions));
  CHECK_FALSE(follows(kMatmul, convolutions));
  CHECK_FALSE(follows("", kAll));  // a kernel that never rounds
}

TEST_CASE("only factors of float32 are rounded, each of them once") {
  const auto steps_of = [](const std::string& nodes) {
    const Specification specification = test::one_pattern(kInputs, nodes, "float32", "[64, 64]");
    Expression expression = test::last_expression(specification);
    NarrowFactors narrow(kAll);
    const bool any = narrow.round_in(expression);
    CHECK(expression.result == expression.leaves.size() + expression.steps.size() - 1);
    return any ? expression.steps.size() : 0;
  };
  CHECK(steps_of(product_of_inputs(kMatmul)) == 3);
  CHECK(steps_of(product_of_inputs(kMatmul, "bfloat16")) == 0);
  CHECK(steps_of(R"(["add", [0, 1], {}, "float32", [64, 64]])") == 0);
  CHECK(steps_of(R"(["matmul", [0, 0], {"factors": "matmul"}, "float32", [64, 64]],)"
                 R"(["matmul", [2, 1], {"factors": "matmul"}, "float32", [64, 64]],)"
                 R"(["matmul", [3, 1], {"factors": "matmul"}, "float32", [64, 64]])") == 7);
}

TEST_CASE("factors of another setting are refused") {
  test::check_refused(
      [] {
        test::one_pattern(kInputs, product_of_inputs(R"("factors": "fp8")"), "float32", "[64, 64]");
      },
      {R"("factors" is "matmul" or "convolution", not "fp8")"});
}

}  // namespace
}  // namespace ttrace::specification::narrow_factors_test
