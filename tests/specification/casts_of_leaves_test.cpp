#include "specification/evaluate/casts_of_leaves.h"

#include <vector>

#include "specification/evaluate/evaluate.h"
#include "specification/specifications.h"
#include "support/catch.h"
#include "tensor/codec.h"

namespace ttrace::specification::casts_of_leaves_test {
namespace {

using tensor::DType;

const std::vector<std::string> kInputs{R"("dtype": "float32", "shape": [2, 2])",
                                       R"("dtype": "bfloat16", "shape": [2, 2])"};
const std::string kWhereNarrower = R"(["cast", [0], {}, "bfloat16", [2, 2]], )";

struct Case {
  explicit Case(const std::string& nodes)
      : specification(test::one_pattern(kInputs, nodes, "bfloat16", "[2, 2]")),
        expression(test::last_expression(specification)),
        leaves{Value::of({2, 2}, {1.001, 2.003, -3.0, 4.009}), Value::of({2, 2}, {1, 2, 3, 4})} {
    for (Leaf& leaf : expression.leaves) leaf.exact = true;
  }

  void take() { take_casts_into_leaves(expression, leaves, test::on_threads(1)); }

  std::vector<double> evaluated() const {
    const auto elements =
        evaluate(expression, leaves, std::nullopt, test::on_threads(1)).to_dense();
    return {elements.data(), elements.data() + elements.size()};
  }

  Specification specification;
  Expression expression;
  std::vector<Value> leaves;
};

double bf16(double value) { return tensor::round_to(DType::kBFloat16, value); }

TEST_CASE("a cast of a known input is an input that is known") {
  Case found(kWhereNarrower + R"(["matmul", [1, 2], {}, "bfloat16", [2, 2]])");
  found.take();
  REQUIRE(found.expression.steps.size() == 1);
  CHECK(found.expression.steps[0].arguments == std::vector<std::uint32_t>{1, 0});
  CHECK(found.expression.leaves[0].rounded_to == DType::kBFloat16);
  CHECK_FALSE(found.expression.leaves[1].rounded_to);
  CHECK(found.evaluated() ==
        std::vector<double>{1 * bf16(1.001) + 2 * -3.0, 1 * bf16(2.003) + 2 * bf16(4.009),
                            3 * bf16(1.001) + 4 * -3.0, 3 * bf16(2.003) + 4 * bf16(4.009)});
}

TEST_CASE("an expression that is a cast alone is the rounded input") {
  Case found(R"(["cast", [0], {}, "bfloat16", [2, 2]])");
  found.take();
  CHECK(found.expression.steps.empty());
  CHECK(found.expression.result == 0);
  CHECK(found.evaluated() == std::vector<double>{bf16(1.001), bf16(2.003), -3.0, bf16(4.009)});
}

TEST_CASE("casts of other inputs stay operations") {
  const std::string add = R"(["add", [2, 1], {}, "bfloat16", [2, 2]])";
  Case unknown(kWhereNarrower + add);
  unknown.expression.leaves[0].exact = false;
  // The input is used as it is, too.
  Case both(kWhereNarrower + add + R"(, ["multiply", [3, 0], {}, "bfloat16", [2, 2]])");
  // A wider type loses nothing.
  Case wider(R"(["cast", [1], {}, "float32", [2, 2]], ["add", [0, 2], {}, "bfloat16", [2, 2]])");
  for (Case* found : {&unknown, &both, &wider}) {
    const std::size_t steps = found->expression.steps.size();
    const std::vector<double> before = found->evaluated();
    found->take();
    CHECK(found->expression.steps.size() == steps);
    CHECK_FALSE(found->expression.leaves[0].rounded_to);
    CHECK(found->evaluated() == before);
  }
}

}  // namespace
}  // namespace ttrace::specification::casts_of_leaves_test
