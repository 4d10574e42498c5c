#include "comparison/run_facts.h"

#include "base/error.h"
#include "base/text.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::comparison::run_facts_test {
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
  const answer::TraceFacts facts = facts_of(trace);
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

TEST_CASE("raw gradients or an optimizer without any main gradient are told") {
  const auto lacking = [](const std::vector<trace::Kind>& kinds, bool optimizer,
                          std::optional<trace::Recorded> recorded = {}) {
    MemoryTrace reference = run("ref.h5");
    MemoryTrace candidate = run("run/");
    for (const trace::Kind kind : kinds) {
      candidate.edit().tensors.push_back(test::make_entry("a", tensor::Shape{1}, kind));
    }
    if (optimizer) candidate.edit().optimizer.emplace_back();
    candidate.edit().run.recorded = std::move(recorded);
    return unrecorded_main_gradients(reference.manifest(), candidate.manifest());
  };
  CHECK(lacking({trace::Kind::kParamGrad}, false).find("the candidate has raw gradients") !=
        std::string::npos);
  CHECK(lacking({trace::Kind::kLoss}, true).find("the candidate has an optimizer") !=
        std::string::npos);
  CHECK(lacking({trace::Kind::kParamGrad, trace::Kind::kMainGrad}, true).empty());
  CHECK(lacking({trace::Kind::kLoss}, false).empty());
  CHECK(lacking({trace::Kind::kParamGrad}, true, trace::Recorded{{trace::Kind::kParamGrad}, {}, {}})
            .empty());
  const trace::Recorded both{{trace::Kind::kParamGrad, trace::Kind::kMainGrad}, {}, {}};
  CHECK_FALSE(lacking({trace::Kind::kParamGrad}, true, both).empty());
}

trace::TensorEntry badly_cut(const std::string& name) {
  trace::TensorEntry entry = test::make_entry(name, {5});
  entry.placements["tp"] = trace::Shard{0, std::vector<std::uint64_t>{2, 2}};
  return entry;
}

std::string refusal(const MemoryTrace& trace) {
  try {
    require_sound_layouts(trace);
  } catch (const base::Error& error) {
    return error.kind() == base::ErrorKind::kInput ? error.what() : "not an input error";
  }
  return "";
}

TEST_CASE("a sound manifest passes") {
  MemoryTrace trace(test::make_mesh({{"tp", 2}}));
  trace.put(test::make_entry("a", {4}), {1, 2, 3, 4});
  CHECK(refusal(trace).empty());
}

TEST_CASE("an unsound manifest is refused with the first contradiction and the number of others") {
  MemoryTrace trace(test::make_mesh({{"tp", 2}}), "run/");
  trace.edit().tensors = {badly_cut("a")};
  const std::string one = refusal(trace);
  CHECK(one.find("run/: the manifest contradicts itself: /tensors/0/placements/tp: ") == 0);
  CHECK(one.find("more, listed by") == std::string::npos);
  trace.edit().tensors = {test::make_entry("fine", {1}), badly_cut("a"), badly_cut("b"),
                          badly_cut("c")};
  const std::string three = refusal(trace);
  CHECK(three.find("/tensors/1/") != std::string::npos);
  CHECK(three.find("and 2 more, listed by `ttrace lint`") != std::string::npos);
}

TEST_CASE("each rank that cannot be read is named") {
  MemoryTrace trace(test::make_mesh({{"tp", 3}}));
  CHECK(lost_ranks_of(trace).problems.empty());
  CHECK(lost_ranks_of(trace).text.empty());
  trace.lose_rank(1);
  CHECK(lost_ranks_of(trace).text == "rank 1 cannot be read");
  trace.lose_rank(2);
  trace.lose_rank(7);  // no rank of the run
  CHECK(lost_ranks_of(trace).problems.size() == 2);
  CHECK(lost_ranks_of(trace).text == "ranks {1, 2} cannot be read");
}

TEST_CASE("ranks that did not close their files may have lost something, and can be read") {
  MemoryTrace trace(test::make_mesh({{"tp", 3}}));
  trace.edit().run.unfinished = {2};
  CHECK(lost_ranks_of(trace).problems.empty());
  CHECK(lost_ranks_of(trace).text == "rank 2 did not close its file");
  trace.edit().run.unfinished = {0, 2};
  CHECK(lost_ranks_of(trace).text == "ranks {0, 2} did not close their files");
}

MemoryTrace run_that_skipped(std::uint64_t step, bool skipped) {
  MemoryTrace trace = run("run");
  trace::OptimizerGroup group;
  group.step = step;
  group.switches["skipped"] = skipped;
  trace.edit().optimizer.push_back(group);
  return trace;
}

TEST_CASE("a step is skipped in both runs if both say so") {
  const MemoryTrace first = run_that_skipped(1, true);
  const MemoryTrace second = run_that_skipped(2, true);
  const MemoryTrace full = run_that_skipped(1, false);
  const auto steps = [](const MemoryTrace& reference, const MemoryTrace& candidate) {
    return steps_skipped_in_both(reference.manifest(), candidate.manifest());
  };
  CHECK(steps(first, first) == std::vector<std::uint64_t>{1});
  CHECK(steps(second, second) == std::vector<std::uint64_t>{2});
  CHECK(steps(first, second).empty());
  CHECK(steps(first, full).empty());
  CHECK(steps(full, first).empty());
}

}  // namespace
}  // namespace ttrace::comparison::run_facts_test
