#include "specification/evaluate/judge_expression.h"

#include <cmath>

#include "specification/primitives/noise.h"
#include "specification/specifications.h"
#include "support/catch.h"
#include "tensor/codec.h"

namespace ttrace::specification::judge_expression_test {
namespace {

using tensor::DType;

Value normal(tensor::Shape shape, DType dtype, std::uint64_t seed) {
  const std::uint64_t count = *tensor::element_count(shape);
  std::vector<double> numbers(count);
  const Noise noise(seed);
  for (std::uint64_t i = 0; i < count; ++i) {
    const double sum = noise.at(4 * i) + noise.at(4 * i + 1) + noise.at(4 * i + 2);
    numbers[i] = tensor::round_to(dtype, sum);
  }
  return Value::of(std::move(shape), std::move(numbers));
}

std::vector<double> copied(const Value& value) {
  const Value dense = value.to_dense();
  return {dense.elements().begin(), dense.elements().end()};
}

// Rounds as a run does that stores the result in `dtype`.
Value stored(const Value& value, DType dtype) {
  std::vector<double> numbers = copied(value);
  for (double& number : numbers) number = tensor::round_to(dtype, number);
  return Value::of(value.shape(), std::move(numbers));
}

// y = x·Wᵀ + b of 64 × 96 tokens, as a linear layer is written.
Specification linear(const std::string& dtype) {
  const std::string type = R"("dtype": ")" + dtype + R"(", "shape": )";
  std::string nodes = R"(["reshape", [0], {}, "T", [96, 48]],
                         ["permute", [1], {"dims": [1, 0]}, "T", [48, 64]],
                         ["matmul", [3, 4], {}, "T", [96, 64]],
                         ["add", [5, 2], {}, "T", [96, 64]],
                         ["reshape", [6], {}, "T", [2, 48, 64]])";
  for (std::size_t at = nodes.find("\"T\""); at != std::string::npos; at = nodes.find("\"T\"")) {
    nodes.replace(at + 1, 1, dtype);
  }
  return test::one_pattern({type + "[2, 48, 48]", type + "[64, 48]", type + "[64]"}, nodes, dtype,
                           "[2, 48, 64]");
}

struct Linear {
  Specification specification;
  Expression expression;
  DType dtype;
  std::vector<Value> leaves;
  Value healthy;

  explicit Linear(DType type)
      : specification(linear(std::string(tensor::dtype_name(type)))),
        expression(test::last_expression(specification)),
        dtype(type),
        leaves{normal({2, 48, 48}, type, 1), normal({64, 48}, type, 2), normal({64}, type, 3)} {
    healthy = stored(evaluate(expression, leaves, std::nullopt, test::on_threads(1)), type);
  }

  ExpressionJudgement judge(const Value& recorded, Products products) const {
    ExpressionOptions options;
    options.products = products;
    options.seed = 11;
    options.context = test::on_threads(2);
    return judge_expression(expression, leaves, recorded, dtype, options);
  }

  Value with(std::uint64_t element, double value) const {
    std::vector<double> numbers = copied(healthy);
    numbers[element] = value;
    return Value::of(healthy.shape(), std::move(numbers));
  }

  Value times(double factor) const {
    std::vector<double> numbers = copied(healthy);
    for (double& number : numbers) number = tensor::round_to(dtype, number * factor);
    return Value::of(healthy.shape(), std::move(numbers));
  }
};

TEST_CASE("a rounded product is within its bound") {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const Linear linear(dtype);
    for (const Products products : {Products::kProbed, Products::kExact}) {
      const ExpressionJudgement judgement = linear.judge(linear.healthy, products);
      CAPTURE(tensor::dtype_name(dtype), judgement.norm_share, judgement.row_share,
              judgement.scale_share);
      CHECK(judgement.by_probes == (products == Products::kProbed));
      CHECK(judgement.follows());
      CHECK(judgement.share <= 0.7);
      CHECK(judgement.norm_share > 0.02);
      CHECK(judgement.rows.empty());
      CHECK(judgement.scale == Approx(1).margin(tensor::epsilon(dtype)));
      CHECK(judgement.equal_bits == !judgement.by_probes);
    }
  }
}

// x·Wᵀ as AMX multiplies bf16: what is subnormal in binary32 is 0.
Value with_subnormals_as_zero(const Value& x, const Value& weight) {
  const auto kept = [](double number) { return std::abs(number) < 0x1p-126 ? 0.0 : number; };
  const std::uint64_t depth = weight.shape()[1];
  const std::uint64_t columns = weight.shape()[0];
  std::vector<double> sums(x.size() / depth * columns);
  for (std::uint64_t i = 0; i < sums.size(); ++i) {
    for (std::uint64_t k = 0; k < depth; ++k) {
      const double left = kept(x.data()[i / columns * depth + k]);
      const double right = kept(weight.data()[i % columns * depth + k]);
      sums[i] = kept(sums[i] + kept(left * right));
    }
  }
  return stored(Value::of({2, 48, columns}, std::move(sums)), DType::kBFloat16);
}

TEST_CASE("a product whose terms are subnormal may have lost them") {
  Linear linear(DType::kBFloat16);
  const auto scaled = [](const Value& value, double factor) {
    std::vector<double> numbers = copied(value);
    for (double& number : numbers) number *= factor;
    return stored(Value::of(value.shape(), std::move(numbers)), DType::kBFloat16);
  };
  const Value weight = linear.leaves[1];
  linear.leaves[2] = scaled(linear.leaves[2], 0);
  for (const double size : {0x1p-122, 0x1p-124, 0x1p-126}) {
    linear.leaves[0] = scaled(Linear(DType::kBFloat16).leaves[0], size);
    // Large weights, whose small factors are lost, and small ones, whose products are.
    for (const double of_weight : {64.0, 1.0, 0x1p-2}) {
      linear.leaves[1] = scaled(weight, of_weight);
      const Value recorded = with_subnormals_as_zero(linear.leaves[0], linear.leaves[1]);
      for (const Products products : {Products::kProbed, Products::kExact}) {
        const ExpressionJudgement judgement = linear.judge(recorded, products);
        CAPTURE(size, of_weight, judgement.norm_share, judgement.row_share, judgement.scale_share);
        CHECK(judgement.follows());
      }
    }
  }
  // What is further from zero is allowed no more than before.
  linear.leaves[0] = scaled(Linear(DType::kBFloat16).leaves[0], 0x1p-100);
  linear.leaves[1] = weight;
  const Value lost = scaled(with_subnormals_as_zero(linear.leaves[0], weight), 1.02);
  CHECK_FALSE(linear.judge(lost, Products::kExact).follows());
}

TEST_CASE("a product of inputs that are known to the bit is allowed less") {
  Linear linear(DType::kBFloat16);
  for (const Products products : {Products::kProbed, Products::kExact}) {
    for (Leaf& leaf : linear.expression.leaves) leaf.exact = false;
    const ExpressionJudgement rounded = linear.judge(linear.healthy, products);
    for (Leaf& leaf : linear.expression.leaves) leaf.exact = true;
    const ExpressionJudgement exact = linear.judge(linear.healthy, products);
    CAPTURE(exact.bound, rounded.bound, exact.share);
    CHECK(exact.bound < 0.85 * rounded.bound);
    CHECK(exact.bound > 0.5 * rounded.bound);
    CHECK(exact.share <= 0.7);
  }
}

TEST_CASE("inputs of other operations are off by a rounding, even if they are known") {
  const std::string activated = R"(["silu", [0], {}, "bfloat16", [64, 64]])";
  // The operands of the product are computed: in the run they may be rounded to another side.
  const std::string product = R"(, ["matmul", [1, 1], {}, "bfloat16", [64, 64]])";
  for (const std::string& nodes : {activated, activated + product}) {
    const Specification specification = test::one_pattern(
        {R"("dtype": "bfloat16", "shape": [64, 64])"}, nodes, "bfloat16", "[64, 64]");
    Expression expression = test::last_expression(specification);
    const std::vector<Value> leaves{normal({64, 64}, DType::kBFloat16, 4)};
    const Value healthy =
        stored(evaluate(expression, leaves, std::nullopt, test::on_threads(1)), DType::kBFloat16);
    ExpressionOptions options;
    options.context = test::on_threads(1);
    const double before =
        judge_expression(expression, leaves, healthy, DType::kBFloat16, options).bound;
    expression.leaves.front().exact = true;
    const double after =
        judge_expression(expression, leaves, healthy, DType::kBFloat16, options).bound;
    CHECK(after == before);
  }
}

TEST_CASE("probes estimate what the product in full gives") {
  const Linear linear(DType::kBFloat16);
  const auto full = linear.judge(linear.healthy, Products::kExact);
  const auto probed = linear.judge(linear.healthy, Products::kProbed);
  CHECK(probed.error == Approx(full.error).epsilon(0.1));
  CHECK(probed.bound == Approx(full.bound).epsilon(0.1));
  CHECK(probed.expected_norm == Approx(full.expected_norm).epsilon(0.1));
}

TEST_CASE("probes see through transposes, reshapes, casts and sums") {
  const std::string type = R"("dtype": "bfloat16", "shape": )";
  // (x·y + z·y - x)ᵀ of matrices 40 × 40, the last x broadcast from a row.
  const Specification specification =
      test::one_pattern({type + "[40, 40]", type + "[40, 40]", type + "[40, 40]", type + "[40]"},
                        R"(["permute", [0], {"dims": [1, 0]}, "bfloat16", [40, 40]],
         ["matmul", [4, 1], {}, "float32", [40, 40]],
         ["cast", [5], {}, "bfloat16", [40, 40]],
         ["matmul", [2, 1], {}, "bfloat16", [40, 40]],
         ["add", [6, 7], {}, "bfloat16", [40, 40]],
         ["subtract", [8, 3], {}, "bfloat16", [40, 40]],
         ["permute", [9], {"dims": [1, 0]}, "bfloat16", [40, 40]],
         ["negate", [10], {}, "bfloat16", [40, 40]],
         ["reshape", [11], {}, "bfloat16", [2, 20, 40]])",
                        "bfloat16", "[2, 20, 40]");
  const Expression expression = test::last_expression(specification);
  std::vector<Value> leaves;
  for (std::uint64_t i = 0; i < 3; ++i) leaves.push_back(normal({40, 40}, DType::kBFloat16, i));
  leaves.push_back(normal({40}, DType::kBFloat16, 9));
  const Value healthy =
      stored(evaluate(expression, leaves, std::nullopt, test::on_threads(1)), DType::kBFloat16);
  ExpressionOptions options;
  const auto probed = judge_expression(expression, leaves, healthy, DType::kBFloat16, options);
  options.products = Products::kExact;
  const auto full = judge_expression(expression, leaves, healthy, DType::kBFloat16, options);
  CHECK(probed.by_probes);
  CHECK(probed.follows());
  CHECK(probed.error == Approx(full.error).epsilon(0.15));
  CHECK(probed.bound == Approx(full.bound).epsilon(0.15));
  CHECK(probed.expected_norm == Approx(full.expected_norm).epsilon(0.15));
}

TEST_CASE("a product that seems to use most of its bound is made in full") {
  const Linear linear(DType::kFloat32);
  const double bound = linear.judge(linear.healthy, Products::kExact).bound;
  std::vector<double> numbers = copied(linear.healthy);
  const double each = 0.75 * bound / std::sqrt(static_cast<double>(numbers.size()));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] += i % 2 == 0 ? each : -each;
  const Value off = Value::of(linear.healthy.shape(), std::move(numbers));
  const ExpressionJudgement judgement = linear.judge(off, Products::kProbed);
  CHECK_FALSE(judgement.by_probes);
  CHECK(judgement.follows());
  CHECK(judgement.norm_share == Approx(0.75).epsilon(0.02));
}

TEST_CASE("a factor of 1.01 in bf16 is found, with its size") {
  const Linear linear(DType::kBFloat16);
  for (const Products products : {Products::kProbed, Products::kExact}) {
    const ExpressionJudgement judgement = linear.judge(linear.times(1.01), products);
    CHECK_FALSE(judgement.follows());
    CHECK_FALSE(judgement.by_probes);
    CHECK(judgement.scale == Approx(1.01).epsilon(0.001));
    CHECK(judgement.residual < 0.005);
    CHECK(judgement.epsilons > 1.2);
  }
}

TEST_CASE("a zeroed row and an element off by 20 rms are found, and the row is named") {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Linear linear(dtype);
    const double rms = 4;  // of sums of 48 products of variance 1
    std::vector<double> zeroed = copied(linear.healthy);
    std::fill(zeroed.begin() + 64 * (48 + 7), zeroed.begin() + 64 * (48 + 8), 0.0);
    const Value wrong[] = {linear.with(64 * (48 + 7) + 5, 20 * rms),
                           Value::of(linear.healthy.shape(), zeroed)};
    for (const Value& recorded : wrong) {
      const ExpressionJudgement judgement = linear.judge(recorded, Products::kProbed);
      CHECK_FALSE(judgement.follows());
      REQUIRE(judgement.rows_beyond == 1);
      CHECK(judgement.rows[0].row == tensor::Shape{1, 7});
      CHECK(judgement.rows[0].share > kRowMultiplier);
    }
  }
}

TEST_CASE("values that are not finite must be so on both sides") {
  const Linear linear(DType::kBFloat16);
  const double inf = std::numeric_limits<double>::infinity();
  const auto wrong = linear.judge(linear.with(70, inf), Products::kProbed);
  CHECK_FALSE(wrong.follows());
  CHECK(wrong.non_finite == 1);

  const Specification specification =
      test::one_pattern({R"("dtype": "float32", "shape": [4])"},
                        R"(["log", [0], {}, "float32", [4]])", "float32", "[4]");
  const Value leaf = Value::of({4}, {1, 0, -1, std::exp(1.0)});
  const Expression expression = test::last_expression(specification);
  const auto judge = [&](double second, double third) {
    return judge_expression(expression, {&leaf, 1}, Value::of({4}, {0, second, third, 1}),
                            DType::kFloat32, {});
  };
  CHECK(judge(-inf, std::nan("")).follows());
  CHECK_FALSE(judge(inf, std::nan("")).follows());
  CHECK_FALSE(judge(-inf, 0).follows());
}

TEST_CASE("what is beyond the type's largest number may be infinite") {
  const Specification specification =
      test::one_pattern({R"("dtype": "float16", "shape": [2])"},
                        R"(["multiply", [0, 0], {}, "float16", [2]])", "float16", "[2]");
  const Value leaf = Value::of({2}, {300, 2});
  const Value recorded = Value::of({2}, {std::numeric_limits<double>::infinity(), 4});
  CHECK(judge_expression(test::last_expression(specification), {&leaf, 1}, recorded,
                         DType::kFloat16, {})
            .follows());
}

TEST_CASE("another name of a value has equal bits, or is off by a rounding at most") {
  const Specification specification = test::specification_of(
      "", R"({"kind": "output", "name": "a", "dtype": "bfloat16", "shape": [64, 64]},
             {"kind": "input", "name": "b", "dtype": "bfloat16", "shape": [64, 64], "same": 0})");
  const Expression expression = test::last_expression(specification);
  const Value a = normal({64, 64}, DType::kBFloat16, 1);
  const auto same = judge_expression(expression, {&a, 1}, a, DType::kBFloat16, {});
  CHECK(same.equal_bits);
  CHECK(same.share == 0);
  const Value other = normal({64, 64}, DType::kBFloat16, 2);
  const auto wrong = judge_expression(expression, {&a, 1}, other, DType::kBFloat16, {});
  CHECK(wrong.share > 10);
}

TEST_CASE("integers must be equal, but for ties that rounding breaks") {
  const Specification specification = test::one_pattern(
      {R"("dtype": "bfloat16", "shape": [4, 3])"},
      R"(["top_indices", [0], {"dim": 1, "k": 1, "largest": true}, "int64", [4, 1]])", "int64",
      "[4, 1]");
  const Expression expression = test::last_expression(specification);
  // The second and third row are a rounding apart.
  const Value scores = Value::of({4, 3}, {3, 2, 1, 1 + 0x1p-12, 1, 0, 0, 5, 5 - 0x1p-10, 4, 2, 1});
  const auto judge = [&](std::vector<double> chosen) {
    return judge_expression(expression, {&scores, 1}, Value::of({4, 1}, std::move(chosen)),
                            DType::kInt64, {});
  };
  CHECK(judge({0, 0, 1, 0}).equal_bits);
  const auto ties = judge({0, 1, 2, 0});
  CHECK(ties.follows());
  CHECK(ties.unequal == 2);
  const Specification exact =
      test::one_pattern({R"("dtype": "int64", "shape": [3])"},
                        R"(["negate", [0], {}, "int64", [3]])", "int64", "[3]");
  const Value ids = Value::of({3}, {1, 2, 3});
  const auto wrong = judge_expression(test::last_expression(exact), {&ids, 1},
                                      Value::of({3}, {-1, -2, -4}), DType::kInt64, {});
  CHECK_FALSE(wrong.follows());
  CHECK(wrong.unequal == 1);
}

TEST_CASE("zeros must be zeros where nothing is rounded") {
  const Specification specification =
      test::one_pattern({R"("dtype": "float32", "shape": [8, 8])"},
                        R"(["triangle", [0], {"lower": true, "diagonal": -8}, "float32", [8, 8]])",
                        "float32", "[8, 8]");
  const Value x = normal({8, 8}, DType::kFloat32, 1);
  const Expression expression = test::last_expression(specification);
  CHECK(judge_expression(expression, {&x, 1}, Value::full({8, 8}, 0), DType::kFloat32, {}).share ==
        0);
  CHECK_FALSE(judge_expression(expression, {&x, 1}, x, DType::kFloat32, {}).follows());
}

TEST_CASE("a step inside the derivative of a GELU may round") {
  const std::string type = R"("dtype": "float32", "shape": [64, 64])";
  const Specification specification = test::one_pattern(
      {type, type}, R"(["gelu_grad", [0, 1], {"tanh": false}, "float32", [64, 64]])", "float32",
      "[64, 64]");
  const Expression expression = test::last_expression(specification);
  const std::vector<Value> leaves{normal({64, 64}, DType::kFloat32, 1),
                                  normal({64, 64}, DType::kFloat32, 2)};
  // As torch's kernel for a CPU, with an erf that is off by up to 2^-22 of 1.
  const auto kernel = [&](float step) {
    std::vector<double> numbers(64 * 64);
    for (std::uint64_t i = 0; i < numbers.size(); ++i) {
      const auto x = static_cast<float>(leaves[1].at(i));
      const float erf = std::erf(x * 0.70710678F) + (i % 2 == 0 ? step : -step);
      const float slope = 0.5F * (1 + erf) + x * (0.39894228F * std::exp(-0.5F * x * x));
      numbers[i] = static_cast<float>(leaves[0].at(i)) * slope;
    }
    return judge_expression(expression, leaves, Value::of({64, 64}, std::move(numbers)),
                            DType::kFloat32, {});
  };
  CHECK(kernel(0x1p-23F).share < 0.8);
  CHECK(kernel(0x1p-23F).share > 0.2);
  CHECK_FALSE(kernel(0x1p-20F).follows());
}

TEST_CASE("the derivative of a maximum knows ties, which no simulated rounding undoes") {
  const Specification specification = test::one_pattern(
      {R"("dtype": "bfloat16", "shape": [2, 4])", R"("dtype": "bfloat16", "shape": [2, 1])"},
      R"(["equal", [0, 1], {}, "bool", [2, 4]],
         ["sum", [2], {"dims": [1], "keep": true}, "bfloat16", [2, 1]],
         ["divide", [1, 3], {}, "bfloat16", [2, 1]],
         ["multiply", [2, 4], {}, "bfloat16", [2, 4]])",
      "bfloat16", "[2, 4]");
  Expression expression = test::last_expression(specification);
  for (Leaf& leaf : expression.leaves) leaf.exact = true;
  const std::vector<Value> leaves{Value::of({2, 4}, {5, 5, 5, 1, 7, 2, 3, 4}),
                                  Value::of({2, 1}, {5, 7})};
  const double third = tensor::round_to(DType::kBFloat16, 5.0 / 3);
  const auto judge = [&](std::vector<double> numbers) {
    return judge_expression(expression, leaves, Value::of({2, 4}, std::move(numbers)),
                            DType::kBFloat16, {});
  };
  CHECK(judge({third, third, third, 0, 7, 0, 0, 0}).follows());
  CHECK_FALSE(judge({5, 5, 5, 0, 7, 0, 0, 0}).follows());
}

}  // namespace
}  // namespace ttrace::specification::judge_expression_test
