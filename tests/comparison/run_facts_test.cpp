#include "comparison/run_facts.h"

#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::comparison {
namespace {

using test::MemoryTrace;

MemoryTrace run(const std::string& path, trace::Mesh mesh = {}) {
  return MemoryTrace(std::move(mesh), path);
}

TEST_CASE("the facts of a run are its ranks, mesh, steps and precision") {
  MemoryTrace trace(test::make_mesh({{"dp", 2}, {"tp", 3}}), "run/");
  trace.edit().meshes["expert"] = {{{"ep", 2}}, {0, 9}};
  trace.edit().run.precision = "bf16";
  for (const std::uint64_t step : {3, 1, 3}) {
    trace.edit().tensors.push_back(test::make_entry("a", {1}));
    trace.edit().tensors.back().key.step = step;
  }
  const TraceFacts facts = facts_of(trace);
  CHECK(facts.path == "run/");
  CHECK(facts.ranks == 7);  // 0 to 5 and 9
  CHECK(facts.precision == "bf16");
  CHECK(facts.steps == std::vector<std::uint64_t>{1, 3});
  REQUIRE(facts.mesh.size() == 2);
  CHECK(facts.mesh[1].name == "tp");
  CHECK(facts.mesh[1].size == 3);
}

TEST_CASE("runs that one plan rewrote, and those that none did, give no warning") {
  MemoryTrace reference = run("ref");
  MemoryTrace candidate = run("run");
  CHECK(plan_warnings(reference, candidate, {}).empty());
  reference.edit().run.plan = {std::string(64, 'a'), {"layers.*"}};
  candidate.edit().run.plan = reference.manifest().run.plan;
  CHECK(plan_warnings(reference, candidate, {}).empty());
}

TEST_CASE("runs that different plans rewrote are told") {
  MemoryTrace reference = run("ref");
  MemoryTrace candidate = run("run");
  const MemoryTrace noise = run("noise");
  reference.edit().run.plan = {std::string(64, 'a'), {"layers.*"}};
  CHECK(plan_warnings(reference, candidate, {&noise}) ==
        std::vector<std::string>{"ref was rewritten by the plan aaaaaaaaaaaa, run was not "
                                 "rewritten; run both with the same plan, or both without one",
                                 "ref was rewritten by the plan aaaaaaaaaaaa, noise was not "
                                 "rewritten; run both with the same plan, or both without one"});
  candidate.edit().run.plan = {std::string(64, 'b'), {"layers.*"}};
  CHECK(plan_warnings(reference, candidate, {}).size() == 1);
}

TEST_CASE("a reference of many ranks and a candidate of one look swapped") {
  const MemoryTrace one = run("ref.h5");
  const MemoryTrace many = run("run/", test::make_mesh({{"tp", 2}}));
  CHECK(run_warnings(one, many, {}).empty());
  CHECK(run_warnings(many, many, {}).empty());
  const auto found = run_warnings(many, one, {});
  REQUIRE(found.size() == 1);
  CHECK(found[0].find("the reference run/ has 2 ranks and the candidate ref.h5 one, so they look "
                      "swapped") == 0);
}

TEST_CASE("kinds that neither run has are told") {
  MemoryTrace reference = run("ref.h5");
  MemoryTrace candidate = run("run/");
  for (const trace::Kind kind : trace::kAllKinds) {
    const bool odd = kind == trace::Kind::kLoss || kind == trace::Kind::kGradNorm;
    auto& tensors = (odd ? candidate : reference).edit().tensors;
    if (kind != trace::Kind::kMainGrad)
      tensors.push_back(test::make_entry("a", tensor::Shape{1}, kind));
  }
  CHECK(kinds_in_neither(reference.manifest(), candidate.manifest()) ==
        std::vector{trace::Kind::kMainGrad});
}

}  // namespace
}  // namespace ttrace::comparison
