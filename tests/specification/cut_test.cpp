// How every primitive is cut: what a cut of the result is computed from gives that cut, to the
// bit. A rule that is wrong for one primitive makes the simulated roundings of a sample those of
// another computation, and the bound too wide: faults would pass without a word.
#include <cstring>
#include <map>
#include <set>

#include "specification/evaluate/evaluation.h"
#include "specification/evaluate/sample.h"
#include "specification/primitive_cases.h"
#include "specification/specifications.h"
#include "support/catch.h"

namespace ttrace::specification::cut_test {
namespace {

// Every index alone, the halves, every second one.
std::vector<Cut> cuts_along(std::size_t dim, std::uint64_t extent) {
  std::vector<Cut> cuts;
  for (std::uint64_t i = 0; i < extent; ++i) cuts.push_back({dim, i, 1, 1});
  if (extent > 1) {
    cuts.push_back({dim, 0, 1, extent / 2});
    cuts.push_back({dim, extent / 2, 1, extent - extent / 2});
    cuts.push_back({dim, 1, 2, extent / 2});
  }
  return cuts;
}

bool same_bits(const Value& a, const Value& b) {
  const Value left = a.to_dense();
  const Value right = b.to_dense();
  return left.shape() == right.shape() &&
         std::memcmp(left.data(), right.data(), left.size() * sizeof(double)) == 0;
}

bool is_open(const Expression& expression) {
  const auto open = [](const tensor::Shape& shape) {
    return std::find(shape.begin(), shape.end(), kAnyExtent) != shape.end();
  };
  return std::any_of(expression.steps.begin(), expression.steps.end(),
                     [&](const Step& step) { return open(step.node->shape); });
}

TEST_CASE("what a cut of a primitive's result needs gives that cut to the bit") {
  std::set<std::string> sampled;
  for (const auto& test : test::all_cases()) {
    CAPTURE(test["node"].dump());
    const Specification specification = test::specification_of_case(test);
    const Expression expression = test::last_expression(specification);
    if (is_open(expression)) continue;
    const auto leaves = test::leaves_of(test);
    const auto context = test::on_threads(2);
    const Value result = evaluate(expression, leaves, std::nullopt, context);
    bool any = false;
    for (std::size_t dim = 0; dim < result.shape().size(); ++dim) {
      for (const Cut& cut : cuts_along(dim, result.shape()[dim])) {
        const auto sample = sample_of(expression, cut);
        if (!sample) continue;
        any = true;
        CAPTURE(cut.dim, cut.start, cut.step, cut.count);
        const std::uint32_t wanted[] = {expression.result};
        const Value found =
            evaluate_values(expression, leaves, wanted, std::nullopt, context, &*sample)[0];
        REQUIRE(same_bits(found, cut.of(result)));
      }
    }
    if (any) sampled.insert(test["node"][0].get<std::string>());
  }
  for (const std::string& name : primitive_names()) {
    CAPTURE(name);
    CHECK(sampled.contains(name) == (find_primitive(name)->cut != nullptr));
  }
}

}  // namespace
}  // namespace ttrace::specification::cut_test
