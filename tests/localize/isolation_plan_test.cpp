#include "localize/isolation_plan.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "localize/isolation.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::localize::isolation_plan_test {
namespace {

using test::make_entry;
using test::MemoryTrace;
using trace::Kind;

trace::TensorEntry entry_of(const std::string& name, Kind kind,
                            tensor::DType dtype = tensor::DType::kFloat32) {
  trace::TensorEntry entry = make_entry(name, {4}, kind, dtype);
  entry.key.microbatch = 0;
  return entry;
}

MemoryTrace sample() {
  MemoryTrace trace(test::make_mesh({{"tp", 1}}), "ref.h5");
  trace.put(entry_of("fc", Kind::kInput), {1, 2, 3, 6});
  trace::TensorEntry later = entry_of("fc", Kind::kInput);
  later.key.microbatch = 1;
  trace.put(later, {100, 200, 300, 400});
  trace.put(entry_of("fc", Kind::kGradOutput), {0.5, -0.5, 0.25, -0.25});
  constexpr double kLowest = std::numeric_limits<float>::lowest();
  trace.put(entry_of("attn[1]", Kind::kInput), {0, kLowest, 0, kLowest});
  trace::TensorEntry named = entry_of("attn[scores]", Kind::kInput);
  named.position = 2;
  trace.put(named, {1, 2, 4, 5});
  trace.put(entry_of("embed", Kind::kInput, tensor::DType::kInt64), {1, 2, 3, 4});
  return trace;
}

TEST_CASE("a plan has the distributions of the reference's first micro-batch") {
  const MemoryTrace trace = sample();
  const RewritingPlan plan = isolation_plan(trace, trace, {"fc", "attn", "embed"});
  REQUIRE(plan.modules.size() == 2);
  const PlannedModule& attn = plan.modules[0];
  CHECK(attn.name == "attn");
  CHECK(attn.grad_outputs.empty());
  // A mask is left alone, and a named value has its place among the arguments.
  REQUIRE(attn.inputs.size() == 1);
  CHECK(attn.inputs[0].index == 2);
  const PlannedModule& fc = plan.modules[1];
  REQUIRE(fc.inputs.size() == 1);
  CHECK(fc.inputs[0].index == 0);
  CHECK(fc.inputs[0].mean == 3);
  CHECK(fc.inputs[0].std == 1.871);
  REQUIRE(fc.grad_outputs.size() == 1);
  CHECK(fc.grad_outputs[0].mean == 0);
  CHECK(fc.grad_outputs[0].std == 0.3953);
}

TEST_CASE("only what both runs recorded is overwritten") {
  MemoryTrace candidate(test::make_mesh({{"tp", 1}}), "run");
  candidate.put(entry_of("fc", Kind::kGradOutput), {1, 2, 3, 4});
  const RewritingPlan plan = isolation_plan(sample(), candidate, {"fc", "attn"});
  REQUIRE(plan.modules.size() == 1);
  CHECK(plan.modules[0].inputs.empty());
}

TEST_CASE("rows by index cannot be generated") {
  MemoryTrace candidate = sample();
  for (trace::TensorEntry& entry : candidate.edit().tensors) {
    if (entry.key.kind == Kind::kInput) entry.placements["tp"] = trace::Rows{};
  }
  const RewritingPlan plan = isolation_plan(sample(), candidate, {"fc"});
  REQUIRE(plan.modules.size() == 1);
  CHECK(plan.modules[0].inputs.empty());
}

TEST_CASE("where nothing can be overwritten the plan is refused") {
  const MemoryTrace trace = sample();
  CHECK_THROWS_WITH(isolation_plan(trace, trace, {"embed"}),
                    Catch::Contains("TTRACE_KINDS=input,output,grad_output,param_grad"));
  CHECK_THROWS_AS(isolation_plan(trace, trace, {}), base::Error);
}

}  // namespace
}  // namespace ttrace::localize::isolation_plan_test
