#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "specification/primitive_cases.h"
#include "specification/primitives/noise.h"
#include "specification/specifications.h"
#include "support/catch.h"

namespace ttrace::specification::primitives_test {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;
using test::all_cases;
using test::leaves_of;
using test::numbers_of;
using test::shape_of;
using test::specification_of_case;

bool same(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::abs(a - b) <= 1e-13 * std::max(1.0, std::abs(b));
}

TEST_CASE("every primitive gives what torch gives in double") {
  std::set<std::string> tested;
  for (const json& test : all_cases()) {
    CAPTURE(test["node"].dump());
    tested.insert(test["node"][0]);
    const Specification specification = specification_of_case(test);
    const Value found = evaluate(test::last_expression(specification), leaves_of(test),
                                 std::nullopt, test::on_threads(2));
    REQUIRE(found.shape() == shape_of(test["node"][4]));
    const std::vector<double> expected = numbers_of(test["expected"]);
    for (std::uint64_t i = 0; i < found.size(); ++i) {
      CAPTURE(i, found.at(i), expected[i]);
      REQUIRE(same(found.at(i), expected[i]));
    }
  }
  for (const std::string& name : primitive_names()) {
    CAPTURE(name);
    CHECK(tested.contains(name));
  }
}

TEST_CASE("a choice of another number than the specification says cannot be judged") {
  const json cases = all_cases();
  json test = *std::find_if(cases.begin(), cases.end(),
                            [](const json& one) { return one["node"][0] == "nonzero"; });
  const auto refusal = [&test] {
    try {
      evaluate(test::last_expression(specification_of_case(test)), leaves_of(test), std::nullopt,
               test::on_threads(1));
      return std::string("not refused");
    } catch (const base::InputError& error) {
      return std::string(error.what());
    }
  };
  for (const int count : {2, 4, 1'000'000'000}) {
    test["node"][4][0] = count;
    CHECK_THAT(refusal(), Contains("3 elements are chosen here, " + std::to_string(count)));
  }
  test["node"][4][0] = -1;
  CHECK_THAT(refusal(), Contains("how many places there are is open"));
  test["node"][4] = {3, 1};
  CHECK_THAT(refusal(), Contains("have 2 columns, not the shape [3, 1]"));
}

// One that is true of a single primitive would be its name in disguise.
TEST_CASE("every fact of the table is true of several primitives") {
  std::map<std::string, std::size_t> having;
  for (const std::string& name : primitive_names()) {
    const Primitive& primitive = *find_primitive(name);
    having["cut"] += primitive.cut != nullptr ? 1 : 0;
    having["work"] += primitive.work != nullptr ? 1 : 0;
    having["terms"] += primitive.terms != nullptr ? 1 : 0;
    having["together"] += primitive.together != nullptr ? 1 : 0;
    having["moves in order"] += primitive.move == Move::kInOrder ? 1 : 0;
    having["moves anyhow"] += primitive.move == Move::kAnyhow ? 1 : 0;
    having["commutes"] += primitive.commutes ? 1 : 0;
    having["associates"] += primitive.associates ? 1 : 0;
    having["shape is layout"] += primitive.shape_is_layout ? 1 : 0;
    having["finds equals"] += primitive.finds_equals ? 1 : 0;
    having["names places"] += primitive.names_places ? 1 : 0;
    having["worth sharing"] += primitive.worth_sharing ? 1 : 0;
    having["not told"] += primitive.told_to_people ? 0 : 1;
  }
  for (const auto& [fact, primitives] : having) {
    CAPTURE(fact, primitives);
    CHECK(primitives >= 2);
    CHECK(primitives < primitive_names().size());
  }
}

TEST_CASE("simulated roundings move a result a little, and by the type of the node") {
  for (const json& test : all_cases()) {
    const std::string dtype = test["node"][3];
    if (dtype != "float64") continue;
    CAPTURE(test["node"].dump());
    const Specification specification = specification_of_case(test);
    const Expression expression = test::last_expression(specification);
    const auto leaves = leaves_of(test);
    const Value exact = evaluate(expression, leaves, std::nullopt, test::on_threads(1));
    const Value moved = evaluate(expression, leaves, Perturbation{3}, test::on_threads(1));
    for (std::uint64_t i = 0; i < exact.size(); ++i) {
      if (!std::isfinite(exact.at(i))) continue;
      // Of unit roundoffs of 2^-53.
      CHECK(std::abs(moved.at(i) - exact.at(i)) <= 1e-13 * (1 + std::abs(exact.at(i))));
    }
  }
}

std::vector<double> random_numbers(std::uint64_t count, std::uint64_t seed) {
  std::vector<double> numbers(count);
  const Noise noise(seed);
  for (std::uint64_t i = 0; i < count; ++i) numbers[i] = noise.at(i);
  return numbers;
}

// What a query may not look at is not computed: the result is the same to the bit as with zeros.
TEST_CASE("causal attention is that under a mask") {
  constexpr std::uint64_t kLength = 150;  // several blocks
  const std::string shape = R"([1, 2, 150, 4])";
  const std::string inputs = R"("dtype": "float32", "shape": )" + shape;
  const std::vector<Value> leaves{
      Value::of({1, 2, kLength, 4}, random_numbers(2 * kLength * 4, 1)),
      Value::of({1, 2, kLength, 4}, random_numbers(2 * kLength * 4, 2)),
      Value::of({1, 2, kLength, 4}, random_numbers(2 * kLength * 4, 3)),
      Value::of({1, 2, kLength, 4}, random_numbers(2 * kLength * 4, 4))};
  const std::string options = R"({"scale": 0.5, "causal": )";
  for (const std::string name :
       {"attention_grad_query", "attention_grad_key", "attention_grad_value"}) {
    CAPTURE(name);
    const auto evaluated = [&](bool masked, bool noise) {
      const std::string mask =
          R"(["full", [], {"value": true}, "bool", [150, 150]],
             ["triangle", [4], {"lower": true, "diagonal": 0}, "bool", [150, 150]], )";
      const Specification specification = test::one_pattern(
          {inputs, inputs, inputs, inputs},
          base::concat(masked ? mask : "", R"([")", name, R"(", [0, 1, 2, 3)", masked ? ", 5" : "",
                       "], ", options, masked ? "false" : "true", R"(}, "float32", )", shape, "]"),
          "float32", shape);
      std::optional<Perturbation> perturbation;
      if (noise) perturbation = Perturbation{9};
      return evaluate(test::last_expression(specification), leaves, perturbation,
                      test::on_threads(2))
          .to_dense();
    };
    const Value causal = evaluated(false, false);
    const Value masked = evaluated(true, false);
    CHECK(std::memcmp(causal.data(), masked.data(), causal.size() * sizeof(double)) == 0);
    double largest = 0;
    const Value others = evaluated(false, true);
    for (const double element : others.elements()) {
      largest = std::max(largest, std::abs(element));
    }
    CHECK((largest > 0 && std::isfinite(largest)));
  }
}

void check_threads(const Specification& specification, const std::vector<Value>& leaves) {
  const Expression expression = test::last_expression(specification);
  for (const bool perturbed : {false, true}) {
    const std::optional<Perturbation> perturbation =
        perturbed ? std::optional<Perturbation>(Perturbation{5}) : std::nullopt;
    const Value one = evaluate(expression, leaves, perturbation, test::on_threads(1)).to_dense();
    for (const unsigned threads : {2U, 3U, 4U}) {
      const Value more =
          evaluate(expression, leaves, perturbation, test::on_threads(threads)).to_dense();
      CHECK(std::memcmp(one.data(), more.data(), one.size() * sizeof(double)) == 0);
    }
  }
}

Value random_value(tensor::Shape shape, std::uint64_t seed) {
  const std::uint64_t count = *tensor::element_count(shape);
  return Value::of(std::move(shape), random_numbers(count, seed));
}

TEST_CASE("results are the same to the bit for any number of threads") {
  const std::string f32 = R"("dtype": "float32", "shape": )";
  check_threads(test::one_pattern({f32 + "[300, 200]", f32 + "[200, 700]"},
                                  R"(["matmul", [0, 1], {}, "float32", [300, 700]],
                                     ["softmax", [2], {"dim": 1}, "float32", [300, 700]],
                                     ["permute", [3], {"dims": [1, 0]}, "float32", [700, 300]],
                                     ["rms_norm", [4], {"count": 1, "eps": 1e-6}, "float32", [700, 300]],
                                     ["silu", [5], {}, "float32", [700, 300]],
                                     ["sum", [6], {"dims": [0], "keep": false}, "float32", [300]])",
                                  "float32", "[300]"),
                {random_value({300, 200}, 1), random_value({200, 700}, 2)});
  const std::string heads = f32 + "[2, 4, 150, 16]";
  const std::string groups = f32 + "[2, 2, 150, 16]";
  for (const char* primitive :
       {"attention_grad_query", "attention_grad_key", "attention_grad_value"}) {
    const std::string shape =
        std::string(primitive) == "attention_grad_query" ? "[2, 4, 150, 16]" : "[2, 2, 150, 16]";
    check_threads(test::one_pattern({heads, heads, groups, groups},
                                    base::concat(R"([")", primitive,
                                                 R"(", [0, 1, 2, 3], {"scale": 0.25, "causal": true,
                                       "arguments": ["g", "q", "k", "v"]}, "float32", )",
                                                 shape, "]"),
                                    "float32", shape),
                  {random_value({2, 4, 150, 16}, 1), random_value({2, 4, 150, 16}, 2),
                   random_value({2, 2, 150, 16}, 3), random_value({2, 2, 150, 16}, 4)});
  }
}

}  // namespace
}  // namespace ttrace::specification::primitives_test
