#include "audit/read_numbers.h"

#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "specification/specifications.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::audit::read_numbers_test {
namespace {

using base::concat;
using Catch::Matchers::Contains;

// The number is the sum of two elements that the trace holds.
specification::Specification specification_of(const std::string& number,
                                              const std::string& dtype = "float32") {
  return specification::parse_specification(
      concat(R"x({"schema": "ttrace.specification/1", "patterns": [{"inputs": 1, "nodes": [
                  ["sum", [0], {"dims": [0], "keep": false}, ")x",
             dtype, R"x(", []]]}], "tensors": [{"kind": "output", "name": "x", "dtype": ")x", dtype,
             R"x(", "shape": [2]}, {"kind": "scalar", "name": "(number)", "dtype": ")x", dtype,
             R"x(", "shape": [], "pattern": 0, "from": [0], "number": )x", number, "}]}"),
      "s.json");
}

bool differ(const std::string& number, std::vector<double> elements,
            const std::string& dtype = "float32", bool recorded = true) {
  const specification::Specification specification = specification_of(number, dtype);
  const trace::TensorEntry entry = test::make_entry("x", {2}, trace::Kind::kOutput);
  const measure::ExecutionContext context = test::on_threads(1);
  ReadNumbers numbers(
      [&](std::size_t tensor, const trace::TensorKey&) {
        return recorded && tensor == 0 ? &entry : nullptr;
      },
      [&](const trace::TensorEntry&) {
        specification::Value value = specification::Value::zeros({elements.size()});
        std::copy(elements.begin(), elements.end(), value.fresh());
        return value;
      },
      context);
  const bool first = numbers.differ(specification, entry.key);
  CHECK(numbers.differ(specification, entry.key) == first);
  return first;
}

TEST_CASE("a micro-batch that read another number is told from one that rounded it") {
  CHECK_FALSE(differ("3", {1, 2}));
  CHECK_FALSE(differ("3", {1, 2.000001}));
  CHECK(differ("3", {1, 2.0001}));
  CHECK(differ("3", {1, 2.000001}, "float64"));
  CHECK(differ("3", {1, 3}, "int64"));
  CHECK_FALSE(differ("3", {1, 2}, "int64"));
  CHECK_FALSE(differ("\"nan\"", {1, NAN}));
  CHECK(differ("\"nan\"", {1, 2}));
  CHECK(differ("3", {1, NAN}));
  CHECK_FALSE(differ("\"inf\"", {1, INFINITY}));
  CHECK(differ("\"inf\"", {1, 2}));
  // Of another shape than the specification says.
  CHECK(differ("3", {1, 1, 1}));
  // Nothing recorded tells.
  CHECK_FALSE(differ("3", {5, 5}, "float32", false));
}

TEST_CASE("only a computed number is read as one") {
  const auto refusal = [](const std::string& tensor) {
    try {
      specification::parse_specification(
          concat(R"({"schema": "ttrace.specification/1", "patterns": [], "tensors": [{)", tensor,
                 R"(, "dtype": "float32", "number": 3}]})"),
          "s.json");
      return std::string("not refused");
    } catch (const base::InputError& error) {
      return std::string(error.what());
    }
  };
  const std::string why = "only a computed scalar of one element is read as a number";
  CHECK_THAT(refusal(R"x("kind": "scalar", "name": "(number)", "shape": [])x"),
             Contains("s.json: /tensors/0/number") && Contains(why));
  CHECK_THAT(refusal(R"("kind": "output", "name": "x", "shape": [])"), Contains(why));
}

}  // namespace
}  // namespace ttrace::audit::read_numbers_test
