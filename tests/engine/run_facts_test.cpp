#include "engine/run_facts.h"

#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::engine {
namespace {

using test::MemoryTrace;

MemoryTrace run(const std::string& path, std::optional<std::uint64_t> seed = std::nullopt) {
  MemoryTrace made({}, path);
  if (seed) made.edit().run.noise = trace::NoiseFacts{*seed, 1e-7, "embed"};
  return made;
}

std::vector<std::string> warnings(const MemoryTrace& reference, const MemoryTrace& candidate,
                                  const std::vector<const trace::Source*>& noise = {}) {
  return disturbance_warnings(reference, candidate, noise);
}

TEST_CASE("the facts of a run are its ranks, mesh, steps and precision") {
  MemoryTrace trace(test::make_mesh({{"dp", 2}, {"tp", 3}}), "run/");
  trace.edit().meshes["expert"] = {{{"ep", 2}}, {0, 9}};
  trace.edit().run.precision = "bf16";
  for (const std::uint64_t step : {3, 1, 3}) {
    trace.edit().tensors.push_back(test::make_entry("a", {1}));
    trace.edit().tensors.back().key.step = step;
  }
  const report::TraceFacts facts = facts_of(trace);
  CHECK(facts.path == "run/");
  CHECK(facts.ranks == 7);  // 0 to 5 and 9
  CHECK(facts.precision == "bf16");
  CHECK(facts.steps == std::vector<std::uint64_t>{1, 3});
  REQUIRE(facts.mesh.size() == 2);
  CHECK(facts.mesh[1].name == "tp");
  CHECK(facts.mesh[1].size == 3);
}

TEST_CASE("clean runs and disturbed noise runs of different seeds give no warning") {
  const MemoryTrace first = run("noise1", 1);
  const MemoryTrace second = run("noise2", 2);
  CHECK(warnings(run("ref"), run("run"), {&first, &second}).empty());
}

TEST_CASE("a disturbed run in the place of a clean one is told") {
  const auto reference = warnings(run("ref", 3), run("run"));
  REQUIRE(reference.size() == 1);
  CHECK(reference[0].find("ref is a disturbed run (seed 3)") == 0);
  CHECK(warnings(run("ref"), run("run", 4))[0].find("run is a disturbed run (seed 4)") == 0);
  CHECK(warnings(run("ref", 3), run("run", 4)).size() == 2);
}

TEST_CASE("a noise run that was not disturbed is told") {
  const MemoryTrace plain = run("copy.h5");
  const auto found = warnings(run("ref"), run("run"), {&plain});
  REQUIRE(found.size() == 1);
  CHECK(found[0].find("copy.h5 does not say that it was disturbed") == 0);
}

TEST_CASE("noise runs of the same seed are told") {
  const MemoryTrace first = run("noise1", 1);
  const MemoryTrace again = run("noise2", 1);
  const auto found = warnings(run("ref"), run("run"), {&first, &again});
  REQUIRE(found.size() == 1);
  CHECK(found[0].find("noise2 and noise1 were disturbed with the same seed 1") == 0);
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
  const MemoryTrace noise = run("noise", 1);
  reference.edit().run.plan = {std::string(64, 'a'), {"layers.*"}};
  CHECK(plan_warnings(reference, candidate, {&noise}) ==
        std::vector<std::string>{"ref was rewritten by the plan aaaaaaaaaaaa, run was not "
                                 "rewritten; run both with the same plan, or both without one",
                                 "ref was rewritten by the plan aaaaaaaaaaaa, noise was not "
                                 "rewritten; run both with the same plan, or both without one"});
  candidate.edit().run.plan = {std::string(64, 'b'), {"layers.*"}};
  CHECK(plan_warnings(reference, candidate, {}).size() == 1);
}

}  // namespace
}  // namespace ttrace::engine
