#include "specification/compare_specifications.h"

#include "specification/specifications.h"
#include "support/catch.h"

namespace ttrace::specification::compare_specifications_test {
namespace {

using test::specification_of;

const char* const kTensors =
    R"({"kind": "param", "name": "fc.weight", "dtype": "float32", "shape": [4, 4]},
       {"kind": "input", "name": "norm", "dtype": "float32", "shape": [2, 4]},
       {"kind": "output", "name": "norm", "dtype": "float32", "shape": [2, 4], "pattern": 0,
        "from": [1], "module": {"class": "LayerNorm", "called_at": "model.py:3"}},
       {"kind": "output", "name": "fc", "dtype": "float32", "shape": [2, 4], "pattern": 1,
        "from": [2, 0]})";
const std::string kNorm =
    R"({"inputs": 1, "nodes": [["layer_norm", [0], {"count": 1, "eps": 1e-05}, "float32", [2, 4]]]})";

std::string norm_with(const std::string& eps) {
  std::string text = kNorm;
  return text.replace(text.find("1e-05"), 5, eps);
}

std::string product(const std::string& nodes) {
  return base::concat(R"(, {"inputs": 2, "nodes": [)", nodes, "]}");
}

const std::string kScaled = product(
    R"(["matmul", [0, 1], {}, "float32", [2, 4]], ["full", [], {"value": 0.5}, "float32", []],
       ["multiply", [2, 3], {}, "float32", [2, 4]])");

CodeComparison compared(const std::string& ours, const std::string& theirs) {
  return compare_specifications(specification_of(ours, kTensors), "ours.json",
                                specification_of(theirs, kTensors), "theirs.json");
}

std::string difference(const std::string& ours, const std::string& theirs) {
  const CodeComparison found = compared(ours, theirs);
  REQUIRE(found.differences.size() == 1);
  return found.differences.front().what;
}

TEST_CASE("the same code has no differences") {
  const CodeComparison found = compared(kNorm + kScaled, kNorm + kScaled);
  CHECK(found.differences.empty());
  CHECK(found.compared == 2);
}

TEST_CASE("another attribute is named with both values and the module") {
  const CodeComparison found = compared(kNorm + kScaled, norm_with("1e-06") + kScaled);
  REQUIRE(found.differences.size() == 1);
  const CodeDifference& first = found.differences.front();
  CHECK(first.what == "eps of layer_norm is 1e-05 in the reference and 1e-06 in the candidate");
  CHECK(first.module_class == "LayerNorm");
  CHECK(first.called_at == "model.py:3");
  REQUIRE(first.tensors.size() == 1);
  CHECK(first.tensors.front().name == "norm");
}

TEST_CASE("a missing scale, and another one, are named") {
  const std::string plain = product(R"(["matmul", [0, 1], {}, "float32", [2, 4]])");
  CHECK(difference(kNorm + kScaled, kNorm + plain) == "multiply with 0.5 only in the reference");
  CHECK(difference(kNorm + plain, kNorm + kScaled) == "multiply with 0.5 only in the candidate");
  std::string other = kScaled;
  other.replace(other.find("0.5"), 3, "0.25");
  CHECK(difference(kNorm + kScaled, kNorm + other) ==
        "value of full is 0.5 in the reference and 0.25 in the candidate");
}

TEST_CASE("another operation, another tensor and another rounding are named") {
  const auto activated = [](const std::string& name, const std::string& type) {
    return product(base::concat(R"(["matmul", [0, 1], {}, "float32", [2, 4]], [")", name,
                                R"(", [2], {}, ")", type, R"(", [2, 4]])"));
  };
  CHECK(difference(kNorm + activated("relu", "float32"), kNorm + activated("silu", "float32")) ==
        "relu in the reference and silu in the candidate");
  CHECK(difference(kNorm + activated("relu", "float32"), kNorm + activated("relu", "bfloat16")) ==
        "relu is rounded to f32 in the reference and to bf16 in the candidate");
  std::string tensors = kTensors;
  tensors.replace(tensors.find("[2, 0]"), 6, "[1, 0]");
  const std::string patterns = kNorm + kScaled;
  const CodeComparison found =
      compare_specifications(specification_of(patterns, kTensors), "ours.json",
                             specification_of(patterns, tensors), "theirs.json");
  REQUIRE(found.differences.size() == 1);
  CHECK(found.differences.front().what ==
        "output of norm in the reference and input of norm in the candidate");
}

TEST_CASE("reshapes and the order of terms are no differences") {
  const std::string ours = product(
      R"(["matmul", [0, 1], {}, "float32", [2, 4]], ["add", [2, 0], {}, "float32", [2, 4]],
         ["add", [3, 2], {}, "float32", [2, 4]])");
  const std::string theirs = product(
      R"(["reshape", [0], {}, "float32", [1, 2, 4]], ["matmul", [2, 1], {}, "float32", [1, 2, 4]],
         ["reshape", [3], {}, "float32", [2, 4]], ["add", [4, 4], {}, "float32", [2, 4]],
         ["add", [0, 5], {}, "float32", [2, 4]])");
  CHECK(compared(kNorm + ours, kNorm + theirs).differences.empty());
  // A reshape before a permutation changes which element goes where.
  const auto permuted = [](const std::string& first) {
    return product(base::concat(R"(["reshape", [1], {}, "float32", )", first,
                                R"(], ["permute", [2], {"dims": [2, 1, 0]}, "float32", [2, 2, 4]],
                                ["reshape", [3], {}, "float32", [4, 4]],
                                ["matmul", [0, 4], {}, "float32", [2, 4]])"));
  };
  const std::string other = product(
      R"(["permute", [1], {"dims": [1, 0]}, "float32", [4, 4]],
         ["matmul", [0, 2], {}, "float32", [2, 4]])");
  CHECK(difference(kNorm + permuted("[4, 2, 2]"), kNorm + other) ==
        "dims of permute is [2, 1, 0] in the reference and [1, 0] in the candidate");
}

TEST_CASE("tensors that one side lacks are listed, and computed on the way") {
  std::string renamed = kTensors;
  renamed.replace(renamed.find(R"("output", "name": "norm")"), 24, R"("output", "name": "nrm2")");
  const std::string patterns = kNorm + kScaled;
  const CodeComparison found =
      compare_specifications(specification_of(patterns, kTensors), "ours.json",
                             specification_of(patterns, renamed), "theirs.json");
  REQUIRE(found.differences.size() == 2);
  CHECK(found.differences[0].what == "only the reference has it");
  CHECK(found.differences[1].what == "only the candidate has it");
  CHECK(found.compared == 1);
}

TEST_CASE("other shapes and other models are refused") {
  const std::string given = R"({"inputs": 1, "nodes": [["negate", [0], {}, "float32", [4, 5]]]})";
  const auto other = specification_of(
      given, R"({"kind": "param", "name": "fc.weight", "dtype": "float32", "shape": [4, 5]})");
  const auto ours = specification_of(kNorm + kScaled, kTensors);
  CHECK_THROWS_WITH(compare_specifications(ours, "ours.json", other, "theirs.json"),
                    Catch::Contains("param of fc.weight is [4, 5] instead of [4, 4]"));
  const auto none = specification_of(
      given, R"({"kind": "param", "name": "x", "dtype": "float32", "shape": [4, 5]})");
  CHECK_THROWS_WITH(compare_specifications(ours, "ours.json", none, "theirs.json"),
                    Catch::Contains("has no tensor of ours.json"));
}

}  // namespace
}  // namespace ttrace::specification::compare_specifications_test
