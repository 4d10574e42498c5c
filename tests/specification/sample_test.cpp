#include "specification/evaluate/sample.h"

#include "specification/evaluate/evaluation.h"
#include "specification/evaluate/judge_expression.h"
#include "specification/evaluate/shared_values.h"
#include "specification/specifications.h"
#include "support/catch.h"
#include "tensor/codec.h"

namespace ttrace::specification::sample_test {
namespace {

std::vector<double> copied(const Value& value) {
  const Value dense = value.to_dense();
  return {dense.elements().begin(), dense.elements().end()};
}

Value random(const tensor::Shape& shape, std::uint64_t seed) {
  Value value = Value::uninitialised(shape);
  for (std::uint64_t i = 0; i < value.size(); ++i) value.fresh()[i] = Noise(seed).at(i);
  return value;
}

const std::string kType = R"("dtype": "float32", "shape": )";

// The gradient that goes into attention of 4 heads, of which two share k and v, as the
// specification of a Llama has it.
Specification attention_gradient(const std::string& which) {
  const std::string nodes =
      R"(["reshape", [0], {}, "float32", [256, 256]],
         ["matmul", [4, 3], {}, "float32", [256, 256]],
         ["reshape", [5], {}, "float32", [1, 256, 4, 64]],
         ["permute", [6], {"dims": [0, 2, 1, 3]}, "float32", [1, 4, 256, 64]],
         ["reshape", [1], {}, "float32", [1, 256, 4, 64]],
         ["permute", [8], {"dims": [0, 2, 1, 3]}, "float32", [1, 4, 256, 64]],
         ["reshape", [2], {}, "float32", [1, 2, 1, 256, 64]],
         ["expand", [10], {}, "float32", [1, 2, 2, 256, 64]],
         ["reshape", [11], {}, "float32", [1, 4, 256, 64]],
         [")" +
      which +
      R"(", [7, 9, 12, 12], {"scale": 0.125, "causal": true}, "float32", [1, 4, 256, 64]],
         ["permute", [13], {"dims": [0, 2, 1, 3]}, "float32", [1, 256, 4, 64]],
         ["reshape", [14], {}, "float32", [1, 256, 256]])";
  return test::one_pattern({kType + "[1, 256, 256]", kType + "[1, 256, 256]",
                            kType + "[1, 2, 256, 64]", kType + "[256, 256]"},
                           nodes, "float32", "[1, 256, 256]");
}

const std::vector<Value>& attention_leaves() {
  static const std::vector<Value> leaves{random({1, 256, 256}, 1), random({1, 256, 256}, 2),
                                         random({1, 2, 256, 64}, 3), random({256, 256}, 4)};
  return leaves;
}

TEST_CASE("a sample is a part of the whole, and takes whole heads of attention") {
  const auto which = GENERATE("attention_grad_query", "attention_grad_key", "attention_grad_value");
  const Specification specification = attention_gradient(which);
  const Expression expression = test::last_expression(specification);
  const auto sample = sample_of(expression);
  REQUIRE(sample);
  CHECK(sample->result.dim == 2);
  CHECK(sample->result.count == 64);
  const std::uint32_t wanted[] = {expression.result};
  const auto context = test::on_threads(2);
  const Value part =
      evaluate_values(expression, attention_leaves(), wanted, std::nullopt, context, &*sample)[0];
  const Value whole = evaluate(expression, attention_leaves(), std::nullopt, context);
  CHECK(copied(part) == copied(sample->result.of(whole)));
}

TEST_CASE("rows of operations by element and of norms are sampled") {
  const Specification specification =
      test::one_pattern({kType + "[2, 128, 256]", kType + "[256]"},
                        R"(["multiply", [0, 0], {}, "float32", [2, 128, 256]],
         ["mean", [2], {"dims": [2], "keep": true}, "float32", [2, 128, 1]],
         ["rsqrt", [3], {}, "float32", [2, 128, 1]],
         ["multiply", [0, 4], {}, "float32", [2, 128, 256]],
         ["softmax", [5], {"dim": 2}, "float32", [2, 128, 256]],
         ["multiply", [6, 1], {}, "float32", [2, 128, 256]])",
                        "float32", "[2, 128, 256]");
  const Expression expression = test::last_expression(specification);
  const auto sample = sample_of(expression);
  REQUIRE(sample);
  CHECK(sample->result.dim < 2);
  const std::vector<Value> leaves{random({2, 128, 256}, 5), random({256}, 6)};
  const std::uint32_t wanted[] = {expression.result};
  const auto context = test::on_threads(1);
  const Value part =
      evaluate_values(expression, leaves, wanted, std::nullopt, context, &*sample)[0];
  const Value whole = evaluate(expression, leaves, std::nullopt, context);
  CHECK(copied(part) == copied(sample->result.of(whole)));
}

TEST_CASE("a result of few elements is not sampled") {
  const Specification specification = test::one_pattern(
      {kType + "[64, 64]"}, R"(["exp", [0], {}, "float32", [64, 64]])", "float32", "[64, 64]");
  CHECK_FALSE(sample_of(test::last_expression(specification)));
}

TEST_CASE("a fault outside of the sample is found, and its row named") {
  const Specification specification = attention_gradient("attention_grad_query");
  const Expression expression = test::last_expression(specification);
  ExpressionOptions options;
  options.context = test::on_threads(1);
  const Value exact = evaluate(expression, attention_leaves(), std::nullopt, options.context);
  std::vector<double> numbers = copied(exact);
  for (double& number : numbers) number = tensor::round_to(tensor::DType::kFloat32, number);
  const auto judged = [&](std::vector<double> recorded) {
    return judge_expression(expression, attention_leaves(),
                            Value::of({1, 256, 256}, std::move(recorded)), tensor::DType::kFloat32,
                            options);
  };
  CHECK(judged(numbers).share < 0.7);
  const std::uint64_t outside = 100 * 256 + 3;
  REQUIRE(sample_of(expression)->result.start > 3);
  numbers[outside] += 0.01;
  const ExpressionJudgement found = judged(numbers);
  CHECK_FALSE(found.follows());
  REQUIRE(found.rows.size() == 1);
  CHECK(found.rows[0].row == tensor::Shape{0, 100});
}

TEST_CASE("shared values are the same to the bit, and other leaves have others") {
  SharedValues values(std::uint64_t{1} << 26U);
  const ValueSharing sharing{&values, {"g", "q", "kv", "w"}};
  const auto context = test::on_threads(2);
  for (const char* which : {"attention_grad_value", "attention_grad_query", "attention_grad_key"}) {
    const Specification specification = attention_gradient(which);
    const Expression expression = test::last_expression(specification);
    const Value alone = evaluate(expression, attention_leaves(), std::nullopt, context);
    const Value shared = evaluate(expression, attention_leaves(), std::nullopt, context, &sharing);
    CHECK(copied(shared) == copied(alone));
    std::vector<Value> others = attention_leaves();
    others[0] = random({1, 256, 256}, 9);
    const ValueSharing other{&values, {"another g", "q", "kv", "w"}};
    CHECK(copied(evaluate(expression, others, std::nullopt, context, &other)) ==
          copied(evaluate(expression, others, std::nullopt, context)));
  }
}

TEST_CASE("shared values are forgotten where there is no room") {
  SharedValues values(100 * sizeof(double));
  const std::uint32_t first = values.number_of_leaf("a");
  const std::uint32_t second = values.number_of_leaf("b");
  CHECK(first != second);
  CHECK(values.number_of_leaf("a") == first);
  values.add(first, random({60}, 1));
  CHECK(values.find(first));
  values.add(second, random({60}, 2));
  CHECK_FALSE(values.find(first));
  CHECK(values.find(second));
  values.add(first, random({101}, 3));
  CHECK_FALSE(values.find(first));
}

}  // namespace
}  // namespace ttrace::specification::sample_test
