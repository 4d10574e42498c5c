#include "engine/lint_trace.h"

#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::engine::lint_trace_test {
namespace {

using test::make_entry;
using test::make_mesh;
using test::MemoryTrace;

MemoryTrace clean() {
  MemoryTrace trace(make_mesh({{"tp", 2}}), "run");
  trace::TensorEntry entry = make_entry("a", {5});
  entry.placements["tp"] = trace::Shard{0, std::nullopt};
  trace.put(entry, {1, 2, 3, 4, 5});
  trace.put(make_entry("b", {2}), {1, 2});
  return trace;
}

TEST_CASE("a trace that is what its manifest says is clean") {
  const LintResult result = lint_trace(clean(), {});
  CHECK(result.findings.empty());
  CHECK(result.tensors == 2);
  CHECK(result.ranks == 2);
  CHECK(result.datasets == 4);
}

TEST_CASE("an activation whose cut dimension the ranks do not divide is asked about, once") {
  MemoryTrace trace = clean();  // [5] over 2 ranks
  const LintResult result = lint_trace(trace, {});
  CHECK(result.findings.empty());
  CHECK(result.warnings ==
        std::vector<std::string>{"run: a · output · step 0 is declared cut along dimension 0 over "
                                 "tp, whose 2 ranks do not divide its 5 elements; is that the "
                                 "dimension that is cut?"});
  // Parameters are often cut unevenly.
  trace.edit().tensors[0].key.kind = trace::Kind::kParam;
  CHECK(lint_trace(trace, {true}).warnings.empty());
  trace.edit().tensors[0].key.kind = trace::Kind::kOutput;
  trace.edit().tensors[0].shape = {4};
  CHECK(lint_trace(trace, {true}).warnings.empty());
}

TEST_CASE("without looking at the files only the layout is checked") {
  MemoryTrace trace = clean();
  trace.lose_rank(0);
  const LintResult result = lint_trace(trace, {true});
  CHECK(result.findings.empty());
  CHECK(result.datasets == 0);
}

TEST_CASE("a manifest that lists no tensor is a finding") {
  const LintResult result = lint_trace(MemoryTrace({}, "run"), {});
  CHECK(result.findings == std::vector<std::string>{"run: the manifest lists no tensor"});
}

TEST_CASE("a lost rank is told once, not for each of its tensors") {
  MemoryTrace trace = clean();
  trace.lose_rank(1);
  const LintResult result = lint_trace(trace, {});
  CHECK(result.findings == std::vector<std::string>{"memory: rank lost"});
  CHECK(result.datasets == 2);
}

TEST_CASE("a tensor that fewer ranks recorded than hold it is a finding, told once") {
  MemoryTrace trace = clean();
  trace.edit().tensors[0].absent_on = std::vector<std::uint64_t>{1};
  trace::TensorEntry parameter = make_entry("w", {2}, trace::Kind::kParam);
  trace.put(parameter, {1, 2});
  parameter.key.kind = trace::Kind::kParamAfterStep;
  parameter.held_at = {{"tp", {1}}};
  trace.put(parameter, {1, 2});
  const LintResult result = lint_trace(trace, {});
  CHECK(result.findings ==
        std::vector<std::string>{
            "run: a · output · step 0: rank 1 of 2 recorded step 0 but lacks it",
            "run: w · param_after_step · step 0: rank 0 of 2 recorded step 0 but lacks it"});
  CHECK(result.datasets == 6);
}

TEST_CASE("datasets that are absent or of another shape or type are told one by one") {
  MemoryTrace trace = clean();
  trace.edit().tensors.push_back(make_entry("absent", {1}));
  trace.put_bits(test::make_key("b"), 1, tensor::DType::kFloat32, {3}, std::vector<std::byte>(12));
  trace.put_bits(test::make_key("a"), 0, tensor::DType::kFloat64, {3}, std::vector<std::byte>(24));
  const LintResult result = lint_trace(trace, {});
  REQUIRE(result.findings.size() == 4);
  CHECK(result.findings[0].find("rank_0: /step_000000/output/a: dataset is [3] f64, the manifest's "
                                "placement gives rank 0 [3] f32") != std::string::npos);
  CHECK(result.findings[1].find("dataset is [3] f32, the manifest's placement gives rank 1 [2]") !=
        std::string::npos);
  CHECK(result.findings[2].find("absent: there is no such dataset") != std::string::npos);
}

TEST_CASE("a layout that contradicts itself is told, and the rest still checked") {
  MemoryTrace trace = clean();
  trace::TensorEntry entry = make_entry("c", {5});
  entry.placements["tp"] = trace::Shard{0, {{1, 1}}};
  trace.edit().tensors.push_back(entry);
  for (const bool manifest_only : {false, true}) {
    const LintResult result = lint_trace(trace, {manifest_only});
    REQUIRE(result.findings.size() == 1);
    CHECK(result.findings[0].find("run: /tensors/2/placements/tp: the shard sizes add up to 2") ==
          0);
  }
}

TEST_CASE("names in the data flow that no module has are told with their place") {
  MemoryTrace trace = clean();
  trace::Module a;
  a.name = "a";
  a.inputs = {"b", "nobody"};
  a.computed_from = {{"b[1]", "stranger[2]"}};
  trace::Module b;
  b.name = "b";
  trace.edit().modules = {a, b};
  const LintResult result = lint_trace(trace, {true});
  CHECK(result.findings ==
        std::vector<std::string>{
            "run: /modules/0/inputs/1: there is no module \"nobody\"",
            "run: /modules/0/computed_from/1: there is no module \"stranger[2]\""});
}

}  // namespace
}  // namespace ttrace::engine::lint_trace_test
