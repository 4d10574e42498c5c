#include "specification/evaluate/probes.h"

#include "specification/specifications.h"
#include "support/catch.h"

namespace ttrace::specification::probes_test {
namespace {

// The nodes of a product of inputs 0 and 1, which is value 2.
const std::string kProduct = R"(["matmul", [0, 1], {}, "float32", [64, 64]])";
const std::vector<std::string> kInputs(2, R"("dtype": "float32", "shape": [64, 64])");

std::string sum(std::uint32_t a, std::uint32_t b, const std::string& name = "add") {
  return base::concat(R"(, [")", name, R"(", [)", a, ", ", b, R"(], {}, "float32", [64, 64]])");
}

Specification of(const std::string& nodes) {
  return test::one_pattern(kInputs, nodes, "float32", "[64, 64]");
}

TEST_CASE("a term that a sum contains many times is one, with the sum of its coefficients") {
  std::string nodes = kProduct;
  for (std::uint32_t i = 0; i < 30; ++i) nodes += sum(2 + i, 2 + i);
  const Specification specification = of(nodes + sum(32, 0, "subtract"));
  const auto plan = plan_of(test::last_expression(specification));
  REQUIRE(plan);
  REQUIRE(plan->products.size() == 1);
  CHECK(plan->products[0].coefficient == 0x1p30);
  REQUIRE(plan->others.size() == 1);
  CHECK(plan->others[0].value == 0);
  CHECK(plan->others[0].coefficient == -1);
  // Every sum rounds once.
  const double unit = unit_roundoff(tensor::DType::kFloat32);
  CHECK(plan->rounding == Approx(31 * unit * unit / 3));
}

TEST_CASE("a chain of any length is taken apart without recursion") {
  std::string nodes = kProduct;
  for (std::uint32_t i = 0; i < 50'000; ++i) nodes += sum(2 + i, 0);
  const Specification specification = of(nodes);
  const auto plan = plan_of(test::last_expression(specification));
  REQUIRE(plan);
  REQUIRE(plan->others.size() == 1);
  CHECK(plan->others[0].coefficient == 50'000);
}

TEST_CASE("a sum of too many terms is not probed") {
  for (const std::size_t others : {kMostTerms - 1, kMostTerms}) {
    std::string nodes = kProduct;
    std::uint32_t total = 2;
    std::uint32_t next = 3;
    for (std::size_t i = 0; i < others; ++i) {
      nodes += base::concat(R"(, ["full", [], {"value": )", i, R"(}, "float32", [64, 64]])");
      nodes += sum(total, next);
      total = next + 1;
      next += 2;
    }
    const Specification specification = of(nodes);
    CHECK(plan_of(test::last_expression(specification)).has_value() == (others < kMostTerms));
  }
}

}  // namespace
}  // namespace ttrace::specification::probes_test
