#include "specification/specification.h"

#include <set>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "specification/describe.h"
#include "specification/expression.h"
#include "specification/specifications.h"
#include "support/catch.h"

namespace ttrace::specification::specification_test {
namespace {

using Catch::Matchers::Contains;
using test::specification_of;
using trace::Kind;

const std::string kScale = R"({"inputs": 2, "nodes": [["multiply", [0, 1], {}, "float32", [4]]]})";

std::string given(const std::string& name, const std::string& more = "") {
  return R"({"kind": "param", "name": ")" + name + R"(", "dtype": "float32", "shape": [4])" + more +
         "},";
}

std::string output(const std::string& name, const std::string& more) {
  return R"({"kind": "output", "name": ")" + name + R"(", "dtype": "float32", "shape": [4], )" +
         more + "}";
}

void check_refusal(const std::string& patterns, const std::string& tensors,
                   const std::string& where, const std::string& reason) {
  CAPTURE(tensors, patterns);
  try {
    specification_of(patterns, tensors);
    FAIL("not refused");
  } catch (const base::InputError& error) {
    CHECK_THAT(error.what(), Contains("s.json: " + where) && Contains(reason));
  }
}

TEST_CASE("the example of the schema is read") {
  const Specification specification =
      read_specification(std::string(TTRACE_SOURCE_DIR) + "/schemas/examples/specification.json");
  CHECK(specification.tensors.size() > 10);
  CHECK(specification.after_backward.has_main_grad);
  trace::TensorKey key;
  key.kind = Kind::kParamGrad;
  key.name = "fc.weight";
  key.step = 3;
  key.microbatch = 1;
  const auto found = specification.find(key);
  REQUIRE(found);
  CHECK(specification.tensors[*found].shape == tensor::Shape{3, 4});
  key.call = 1;
  CHECK_FALSE(specification.find(key));
}

TEST_CASE("a specification is refused with the place and the reason") {
  const std::string a = given("a");
  const std::string follows = output("y", R"("pattern": 0, "from": [0, 0])");
  check_refusal(R"({"inputs": 1, "nodes": []})", a + follows, "/patterns/0/nodes", "at least one");
  check_refusal(R"({"inputs": 1, "nodes": [["multipy", [0, 0], {}, "float32", [4]]]})", a + follows,
                "/patterns/0/nodes/0/0", "did you mean \"multiply\"");
  check_refusal(R"({"inputs": 2, "nodes": [["multiply", [0, 2], {}, "float32", [4]]]})",
                a + follows, "/patterns/0/nodes/0/1/1", "does not stand before its user");
  check_refusal(R"({"inputs": 2, "nodes": [["multiply", [0], {}, "float32", [4]]]})", a + follows,
                "/patterns/0/nodes/0/1", "it takes 2 arguments, found 1");
  check_refusal(R"({"inputs": 2, "nodes": [["multiply", [0, 1], {"by": 2}, "float32", [4]]]})",
                a + follows, "/patterns/0/nodes/0/2/by", "multiply has no attribute \"by\"");
  check_refusal(R"({"inputs": 2, "nodes": [["softmax", [0], {}, "float32", [4]]]})", a + follows,
                "/patterns/0/nodes/0/2", "lacks the attribute \"dim\"");
  check_refusal(R"({"inputs": 2, "nodes": [["multiply", [0, 1], {}, "float33", [4]]]})",
                a + follows, "/patterns/0/nodes/0/3", "unknown dtype");
  check_refusal(R"({"inputs": 2, "nodes": [["multiply", [0, 1], {}, "float32", [5]]]})",
                a + follows, "/patterns/0/nodes/0", "the result is [4] instead of [5]");
  check_refusal(R"({"inputs": 2, "nodes": [["matmul", [0, 1], {}, "float32", [4]]]})", a + follows,
                "/patterns/0/nodes/0", "no matrices");
  check_refusal(R"({"inputs": 2, "nodes": [["softmax", [0], {"dim": 1}, "float32", [4]]]})",
                a + follows, "/patterns/0/nodes/0", "\"dim\" is 1");
  check_refusal(R"({"inputs": 2, "nodes": [["sum", [0], {"dims": [0, 0], "keep": true}, "float32",
                [1]]]})",
                a + follows, "/patterns/0/nodes/0", "twice");

  check_refusal(kScale, a + output("y", R"("pattern": 1, "from": [0, 0])"), "/tensors/1/pattern",
                "there is no pattern 1");
  check_refusal(kScale, a + output("y", R"("pattern": 0, "from": [0])"), "/tensors/1",
                "has 2 inputs");
  check_refusal(kScale, a + output("y", R"("pattern": 0, "from": [0, 1])"), "/tensors/1/from/1",
                "does not stand before its user");
  check_refusal(kScale, a + output("y", R"("same": 1)"), "/tensors/1/same",
                "does not stand before its user");
  check_refusal(kScale, a + output("y", R"("same": 0, "opaque": "fft")"), "/tensors/1", "only one");
  check_refusal(kScale, a + output("y", R"("uniform": true)"), "/tensors/1/uniform",
                "only a given scalar");
  check_refusal(kScale, a + output("y", R"("from": [0])"), "/tensors/1", "needs \"pattern\"");
  check_refusal(kScale, a + output("y", R"("way": 0)"), "/tensors/1/way", "unknown key");
  check_refusal(kScale, a + a + follows, "/tensors/1", "the same kind, name, call and copy");
  check_refusal(kScale, given("a", R"(, "values": [1, 2])") + follows, "/tensors/0/values",
                "2 values");
  check_refusal(kScale, given("a/b") + follows, "/tensors/0/name", "a/b");
  check_refusal(kScale,
                R"({"kind": "param", "name": "a", "dtype": "float32", "shape": [-2]},)" + follows,
                "/tensors/0/shape/0", "-2");
  check_refusal(kScale,
                R"({"kind": "param", "name": "a", "dtype": "float32", "shape": [3]},)" + follows,
                "/patterns/0/nodes/0", "used by /tensors/1");
  check_refusal(kScale,
                R"({"kind": "param", "name": "a", "dtype": "float32", "shape": [3]},)" +
                    output("y", R"("same": 0)"),
                "/tensors/1", "that of \"same\"");
  check_refusal(R"({"inputs": 1e9, "nodes": []})", a + follows, "/patterns/0/inputs",
                "whole number");
  check_refusal(R"({"inputs": 1000001, "nodes": []})", a + follows, "/patterns/0",
                "1000000 inputs");
  CHECK_THROWS_WITH(parse_specification(R"({"schema": "ttrace.specification/2"})", "s.json"),
                    Contains("reads \"ttrace.specification/1\""));
}

TEST_CASE("only the update of a step reads tensors of micro-batches by their number") {
  const auto with_update = [](const std::string& tensors) {
    return R"({"schema": "ttrace.specification/1", "patterns": [], "tensors": [], "updates": [)"
           R"({"step": 3, "settings": [], "patterns": [], "tensors": [)" +
           tensors + "]}]}";
  };
  const std::string first =
      R"({"kind": "output", "name": "y", "dtype": "float32", "shape": [4], "microbatch": 0})";
  const std::string second =
      R"({"kind": "output", "name": "y", "dtype": "float32", "shape": [4], "microbatch": 1})";
  const Specification read = parse_specification(with_update(first + "," + second), "s.json");
  const Specification& of_step = read.updates.at(0);
  trace::TensorKey key = of_step.key_of(1);
  CHECK(key.microbatch == 1U);
  CHECK(of_step.find(key) == 1U);
  key.microbatch.reset();
  CHECK_FALSE(of_step.find(key));
  CHECK_THROWS_WITH(parse_specification(with_update(first + "," + first), "s.json"),
                    Contains("/updates/0/tensors/1"));
  check_refusal(kScale, first, "/tensors/0/microbatch", "only a tensor of \"updates\"");
}

TEST_CASE("a step may only have frozen what the first one trains") {
  const auto with_frozen = [](const std::string& names) {
    return R"({"schema": "ttrace.specification/1", "patterns": [], "tensors": [)"
           R"({"kind": "param_grad", "name": "w", "dtype": "float32", "shape": [4]}], "updates": [)"
           R"({"step": 3, "settings": [], "frozen": [)" +
           names + R"(], "patterns": [], "tensors": []}]})";
  };
  const Specification read = parse_specification(with_frozen(R"("w")"), "s.json");
  CHECK(read.is_frozen(3, "w"));
  CHECK_FALSE(read.is_frozen(2, "w"));
  CHECK_THROWS_WITH(parse_specification(with_frozen(R"("w", "w")"), "s.json"),
                    Contains("/updates/0/frozen/1"));
  CHECK_THROWS_WITH(parse_specification(with_frozen(R"("b")"), "s.json"),
                    Contains("the first step has no gradient of it"));
}

TEST_CASE("what the reference changes behind its optimizer is known by step") {
  const auto update = [](int step, const std::string& names) {
    return base::concat(R"({"step": )", step, R"(, "settings": [], "rewritten": [)", names,
                        R"(], "patterns": [], "tensors": []})");
  };
  const auto with_updates = [](const std::string& updates) {
    return base::concat(R"({"schema": "ttrace.specification/1", "patterns": [], "tensors": [], )",
                        R"("updates": [)", updates, "]}");
  };
  const Specification read = parse_specification(
      with_updates(base::concat(update(3, R"("w")"), ", ", update(4, ""))), "s.json");
  CHECK(read.is_rewritten(3, "w"));
  CHECK_FALSE(read.is_rewritten(3, "b"));
  CHECK_FALSE(read.is_rewritten(4, "w"));
  CHECK(read.is_rewritten(5, "w"));  // nobody followed that step
  CHECK_THROWS_WITH(parse_specification(with_updates(update(3, R"("w", "w")")), "s.json"),
                    Contains("/updates/0/rewritten/1"));
}

TEST_CASE("more nodes or tensors than the limits are refused before they are read") {
  // Neither is a node or a tensor, which shows that counting comes first.
  const auto refusal = [](const std::string& patterns, const std::string& tensors) {
    SpecificationLimits limits;
    limits.nodes = 3;
    limits.tensors = 2;
    try {
      parse_specification(R"({"schema": "ttrace.specification/1", "patterns": [)" + patterns +
                              R"(], "tensors": [)" + tensors + "]}",
                          "s.json", limits);
    } catch (const base::InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refusal(R"({"nodes": [0, 0]}, {"nodes": [0, 0]})", "0") ==
        "s.json: /patterns/1: more than 3 nodes in all");
  CHECK(refusal("", "0, 0, 0") == "s.json: /tensors: more than 2 tensors");
  CHECK(SpecificationLimits().nodes == 10'000'000);
  CHECK(SpecificationLimits().tensors == 1'000'000);
}

std::string chain() {
  return given("a") + given("b") + output("x", R"("pattern": 0, "from": [0, 1])") + "," +
         output("x2", R"("same": 2)") + "," + output("y", R"("pattern": 0, "from": [3, 1])") + "," +
         output("o", R"("opaque": "fft", "from": [4])") + "," +
         output("z", R"("pattern": 0, "from": [4, 5])");
}

std::vector<std::uint32_t> leaves_of(const Expression& expression) {
  std::vector<std::uint32_t> leaves;
  for (const Leaf& leaf : expression.leaves) leaves.push_back(leaf.tensor);
  return leaves;
}

TEST_CASE("an expression ends at recorded tensors") {
  const Specification specification = specification_of(kScale, chain());
  CHECK(specification.original(3) == 2);
  CHECK(specification.names_of_value(2) == std::vector<std::uint32_t>{2, 3});
  const auto with = [&](std::size_t tensor, std::vector<std::size_t> recorded) {
    return expression_of(specification, tensor, [recorded](std::size_t candidate) {
      return std::find(recorded.begin(), recorded.end(), candidate) != recorded.end();
    });
  };
  using Leaves = std::vector<std::uint32_t>;
  const auto of = [](const auto& found) { return std::get<Expression>(found); };
  CHECK(leaves_of(of(with(4, {0, 1, 2, 3, 4}))) == Leaves{1, 3});
  CHECK(leaves_of(of(with(4, {0, 1, 2, 4}))) == Leaves{1, 2});  // the other name
  const Expression substituted = of(with(4, {0, 1, 4}));
  CHECK(leaves_of(substituted) == Leaves{0, 1});
  CHECK(substituted.steps.size() == 2);
  const Expression identity = of(with(3, {0, 1, 2, 3}));
  CHECK(leaves_of(identity) == Leaves{2});
  CHECK(identity.steps.empty());
  CHECK(leaves_of(of(with(3, {0, 1, 3}))) == Leaves{0, 1});

  const auto why = [](const auto& found) { return std::get<NoExpression>(found); };
  CHECK(why(with(0, {0, 1})).why == NoExpression::Why::kGiven);
  CHECK(why(with(4, {0, 4})).why == NoExpression::Why::kNotRecorded);
  CHECK(why(with(4, {0, 4})).reason == "needs param of b, which is not recorded");
  CHECK(why(with(5, {0, 1, 4, 5})).why == NoExpression::Why::kOpaque);
  CHECK(why(with(6, {0, 1, 4, 6})).reason ==
        "output of o is not recorded and computed by fft, which no primitive expresses");
  CHECK(leaves_of(of(with(6, {4, 5, 6}))) == Leaves{4, 5});
}

TEST_CASE("the first recorded name of a value is computed, and not held against the others") {
  const Specification specification = specification_of(
      kScale, given("a") + given("b") + output("x", R"("pattern": 0, "from": [0, 1])") + "," +
                  output("x2", R"("same": 2)") + "," + output("x3", R"("same": 3)") + "," +
                  output("a2", R"("same": 0)") + "," + output("a3", R"("same": 0)") + "," +
                  output("o", R"("opaque": "fft", "from": [4])") + "," +
                  output("o2", R"("same": 7)") + "," + output("o3", R"("same": 7)"));
  const auto found = [&](std::size_t tensor, std::set<std::size_t> recorded) {
    return expression_of(specification, tensor,
                         [recorded](std::size_t other) { return recorded.contains(other); });
  };
  const auto leaves = [&](std::size_t tensor, std::set<std::size_t> recorded) {
    return leaves_of(std::get<Expression>(found(tensor, std::move(recorded))));
  };
  using Leaves = std::vector<std::uint32_t>;
  CHECK(leaves(3, {0, 1, 3, 4}) == Leaves{0, 1});
  CHECK(leaves(4, {0, 1, 3, 4}) == Leaves{3});
  CHECK(leaves(4, {0, 1, 2, 3, 4}) == Leaves{2});
  const auto why = [&](std::size_t tensor, std::set<std::size_t> recorded) {
    return std::get<NoExpression>(found(tensor, std::move(recorded))).why;
  };
  CHECK(why(3, {0, 3, 4}) == NoExpression::Why::kNotRecorded);
  CHECK(why(8, {0, 1, 4, 8, 9}) == NoExpression::Why::kOpaque);
  CHECK(leaves(9, {0, 1, 4, 8, 9}) == Leaves{8});
  // What is given follows from nothing: its names are held against each other.
  CHECK(leaves(5, {1, 5, 6}) == Leaves{6});
  CHECK(leaves(6, {1, 5, 6}) == Leaves{5});
}

TEST_CASE("an expression without inputs is described as a constant") {
  const Specification specification =
      test::one_pattern({}, R"(["full", [], {"value": 0.5}, "float32", []])", "float32", "[]");
  CHECK(describe_expression(test::last_expression(specification)) ==
        "a constant of the specification");
}

// A buffer with `count` elements, each 1.
std::string table(std::size_t count) {
  std::string values = "1";
  for (std::size_t i = 1; i < count; ++i) values += ",1";
  return R"({"kind": "buffer", "name": "t", "dtype": "float32", "shape": [)" +
         std::to_string(count) + R"(], "values": [)" + values + "]},";
}

TEST_CASE("a buffer may have as many values as a table of positions") {
  const std::string follows =
      given("a") + given("b") + output("y", R"("pattern": 0, "from": [1, 2])");
  CHECK(specification_of(kScale, table(65536) + follows).tensors[0].values.size() == 65536);
  check_refusal(kScale, table(65537) + follows, "/tensors/0/values", "more than 65536 values");
}

TEST_CASE("a buffer with values need not be recorded") {
  const Specification specification =
      specification_of(kScale, given("a", R"(, "values": [1, 2, 3, "inf"])") + given("b") +
                                   output("y", R"("pattern": 0, "from": [0, 1])"));
  const auto found = std::get<Expression>(
      expression_of(specification, 2, [](std::size_t tensor) { return tensor == 1; }));
  REQUIRE(found.leaves.size() == 2);
  CHECK(found.leaves[0].constant);
  const Value b = Value::of({4}, {2, 2, 2, 2});
  const Value leaves[] = {constant_value(specification.tensors[0]), b};
  const Value product = evaluate(found, leaves, std::nullopt, test::on_threads(1));
  CHECK(product.at(1) == 4);
  CHECK(std::isinf(product.at(3)));
  const std::uint32_t wanted[] = {found.result};
  CHECK(peak_bytes(found, wanted) == 3 * 4 * sizeof(double));
  // The leaves once more, off by a rounding each; the result, that with roundings, and the
  // recorded.
  CHECK(judging_bytes(found) == (3 + 2 + 3) * 4 * sizeof(double));
}

TEST_CASE("a sum of sizes that wraps is endless") {
  const Specification specification =
      test::one_pattern({R"("dtype": "float32", "shape": [1])"},
                        R"(["expand", [0], {}, "float32", [1099511627776, 1048576]],
         ["add", [1, 1], {}, "float32", [1099511627776, 1048576]],
         ["sum", [2], {"dims": [0, 1], "keep": false}, "float32", []])",
                        "float32", "[]");
  const Expression expression = test::last_expression(specification);
  CHECK(judging_bytes(expression) == std::numeric_limits<std::uint64_t>::max());
}

TEST_CASE("a value beyond the limit of memory is an error of the data") {
  const Specification specification = specification_of(
      R"({"inputs": 1, "nodes": [["concat", [0, 0], {"dim": 0}, "float32", [-1]],
          ["concat", [1, 1], {"dim": 0}, "float32", [-1]],
          ["sum", [2], {"dims": [0], "keep": false}, "float32", []]]})",
      R"({"kind": "param", "name": "a", "dtype": "float32", "shape": [-1]},
         {"kind": "output", "name": "y", "dtype": "float32", "shape": [], "pattern": 0,
          "from": [0]})");
  const Expression expression = test::last_expression(specification);
  const Value leaf = Value::zeros({1 << 16});
  const auto made = [&] {
    return evaluate(expression, {&leaf, 1}, std::nullopt, test::on_threads(1));
  };
  CHECK(made().at(0) == 0);
  {
    const ValueMemoryLimit limit(3 << 20);
    CHECK_THROWS_WITH(made(), Contains("needs more than 3.1 MB of memory"));
  }
  CHECK(made().at(0) == 0);
}

TEST_CASE("a file that may need more memory than is allowed is refused before it is read") {
  const auto parsed = [](std::uint64_t bytes) {
    SpecificationLimits limits;
    limits.bytes = bytes;
    return parse_specification(R"({"schema": "ttrace.specification/1", "patterns": [],
                                   "tensors": [)" +
                                   given("a") + output("y", R"("opaque": "fft")") + "]}",
                               "s.json", limits);
  };
  const Specification specification = parsed(std::uint64_t{1} << 20);
  CHECK(specification.bytes > 0);
  CHECK_THROWS_WITH(parsed(100), Contains("s.json: reading it needs up to"));
  CHECK_THROWS_WITH(parsed(specification.bytes), Contains("allow more with --memory"));
}

TEST_CASE("an open extent is settled by the values") {
  const Specification specification = specification_of(
      R"({"inputs": 1, "nodes": [["reshape", [0], {}, "float32", [-1, 2]],
          ["sum", [1], {"dims": [1], "keep": false}, "float32", [-1]]]})",
      R"({"kind": "param", "name": "a", "dtype": "float32", "shape": [-1]},
         {"kind": "output", "name": "y", "dtype": "float32", "shape": [-1], "pattern": 0,
          "from": [0]})");
  const Expression expression = test::last_expression(specification);
  const Value leaf = Value::of({6}, {1, 2, 3, 4, 5, 6});
  const Value sums = evaluate(expression, {&leaf, 1}, std::nullopt, test::on_threads(1));
  CHECK(sums.shape() == tensor::Shape{3});
  CHECK(sums.at(2) == 11);
  const Value odd = Value::of({3}, {1, 2, 3});
  CHECK_THROWS_WITH(evaluate(expression, {&odd, 1}, std::nullopt, test::on_threads(1)),
                    Contains("cannot have the shape"));
}

TEST_CASE("an index out of range is an error of the data") {
  const Specification specification = test::one_pattern(
      {R"("dtype": "float32", "shape": [3, 2])", R"("dtype": "int64", "shape": [2])"},
      R"(["embedding", [0, 1], {}, "float32", [2, 2]])", "float32", "[2, 2]");
  const Value leaves[] = {Value::full({3, 2}, 1), Value::of({2}, {0, 3})};
  CHECK_THROWS_WITH(
      evaluate(test::last_expression(specification), leaves, std::nullopt, test::on_threads(1)),
      "embedding: the index 3 is out of range, there are 3");
}

}  // namespace
}  // namespace ttrace::specification::specification_test
