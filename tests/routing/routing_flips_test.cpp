#include "routing/routing_flips.h"

#include <limits>

#include "engine/compare_traces.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::routing::routing_flips_test {
namespace {

using comparison::CompareReport;
using judge::Outcome;
using tensor::DType;
using test::make_entry;
using test::MemoryTrace;
using trace::Kind;

using Table = std::vector<std::vector<double>>;

// Four tokens, three experts, one of them chosen. Two features, router.weight as below.
constexpr double kNear = 1e-7;
const Table kWeight{{1, 0}, {0, 1}, {-1, -1}};

struct Run {
  Table inputs{{1, 1 - kNear}, {2, 1}, {1, 3}, {-5, -5}};
  Table chosen{{1, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
  Table outputs{{10, 10}, {10, 20}, {30, 40}, {50, 60}};
  double loss = 1;
};

void put(MemoryTrace& trace, const std::string& name, Kind kind, const Table& rows,
         DType dtype = DType::kFloat32) {
  trace::TensorEntry entry = make_entry(name, {rows.size(), rows[0].size()}, kind, dtype);
  if (kind != Kind::kParam) entry.key.microbatch = 0;
  std::vector<double> values;
  for (const auto& row : rows) values.insert(values.end(), row.begin(), row.end());
  trace.put(entry, values);
}

MemoryTrace trace_of(const Run& run) {
  MemoryTrace made;
  put(made, "layers.0.router", Kind::kInput, run.inputs);
  put(made, "layers.0.router.weight", Kind::kParam, kWeight);
  put(made, "layers.0.router", Kind::kOutput, run.chosen, DType::kInt64);
  put(made, "layers.0", Kind::kOutput, run.outputs);
  trace::TensorEntry loss = make_entry("loss", {1}, Kind::kLoss);
  loss.key.microbatch = 0;
  made.put(loss, {run.loss});
  trace::Module router;
  router.name = "layers.0.router";
  router.params = {"layers.0.router.weight"};
  trace::Module layer;
  layer.name = "layers.0";
  layer.computed_from = {{"layers.0.router"}};
  trace::Module end;
  end.name = "loss";
  end.computed_from = {{"layers.0"}};
  made.edit().modules = {layer, router, end};
  return made;
}

// Token 0 lies near a tie and goes to expert 1.
Run flipped() {
  Run run;
  run.inputs[0] = {1 - kNear, 1};
  run.chosen[0] = {0, 1, 0};
  run.outputs[0] = {99, 99};
  run.loss = 3;
  return run;
}

CompareReport compared(const Run& candidate) {
  return engine::compare_traces(trace_of(Run()), trace_of(candidate), {}, {{}, 1});
}

Outcome outcome_of(const CompareReport& out, const std::string& name, Kind kind = Kind::kOutput) {
  for (const comparison::TensorComparison& result : out.results) {
    if (result.key.name == name && result.key.kind == kind) return result.outcome;
  }
  throw std::out_of_range(name);
}

TEST_CASE("a flip near a tie is told and what follows is judged without it or not at all") {
  const CompareReport out = compared(flipped());
  REQUIRE(out.routers.size() == 1);
  CHECK(out.routers[0].flipped == 1);
  CHECK(out.routers[0].tokens == 4);
  CHECK(out.routers[0].experts == 3);
  CHECK(out.routers[0].unexplained == 0);
  CHECK_FALSE(out.routers[0].follows);
  CHECK(outcome_of(out, "layers.0.router") == Outcome::kRoutingFlip);
  CHECK(outcome_of(out, "layers.0") == Outcome::kMatch);
  CHECK(outcome_of(out, "loss", Kind::kLoss) == Outcome::kAfterRoutingFlip);
  CHECK(out.verdict == answer::Verdict::kInconclusive);
  CHECK(out.findings.empty());
  for (const comparison::TensorComparison& result : out.results) {
    CHECK(result.tokens_left_out == (result.key.name == "layers.0" ? 1 : 0));
  }
}

TEST_CASE("hidden states are not taken for scores though they have their shape") {
  // Four features and three experts; the choice by number.
  const Table weight{{1, 0, 9, 0}, {0, 1, 9, 0}, {-1, -1, 9, 0}};
  const auto made = [&](const Run& run) {
    MemoryTrace trace = trace_of(run);
    Table inputs;
    for (const auto& row : run.inputs) inputs.push_back({row[0], row[1], 0.5, 100});
    Table numbers;
    for (const auto& row : run.chosen) numbers.push_back({row[1] + 2 * row[2]});
    put(trace, "layers.1.router", Kind::kInput, inputs);
    put(trace, "layers.1.router.weight", Kind::kParam, weight);
    put(trace, "layers.1.router", Kind::kOutput, numbers, DType::kInt64);
    return trace;
  };
  const CompareReport out = engine::compare_traces(made(Run()), made(flipped()), {}, {{}, 1});
  CHECK(outcome_of(out, "layers.1.router") == Outcome::kRoutingFlip);
  REQUIRE(out.routers.size() == 2);
  CHECK(out.routers[1].experts == 3);
}

// Learned from a healthy miniature in bf16 whose router gives the two largest probabilities and the
// numbers of their experts: these were read as a map of two experts.
TEST_CASE("numbers of experts are no map though as many are chosen as scores are recorded") {
  const Table weight{{1, 0}, {-1, 0}, {0, 1}, {0, -1}};
  const auto made = [&](bool swapped) {
    MemoryTrace trace;
    const double first = swapped ? 1 : 1 - kNear;
    put(trace, "router", Kind::kInput, {{first, 2 - kNear - first}, {1, 3}, {-2, 1}, {1, -3}});
    put(trace, "router.weight", Kind::kParam, weight);
    put(trace, "router", Kind::kOutput, Table(4, {0.5, 0.4}));
    const std::vector<double> near =
        swapped ? std::vector<double>{0, 2} : std::vector<double>{2, 0};
    put(trace, "router[1]", Kind::kOutput, {near, {2, 0}, {1, 2}, {3, 0}}, DType::kInt64);
    return trace;
  };
  const CompareReport out = engine::compare_traces(made(false), made(true), {}, {{}, 1});
  CHECK(outcome_of(out, "router[1]") == Outcome::kRoutingFlip);
  REQUIRE(out.routers.size() == 1);
  CHECK(out.routers[0].experts == 4);
}

// Learned from healthy miniatures in bf16, where nothing else remained unjudged.
TEST_CASE("the choice that is passed on to the experts is judged as the choice is") {
  const auto made = [](const Run& run, double changed) {
    MemoryTrace trace = trace_of(run);
    Table chosen = run.chosen;
    chosen[3][0] += changed;
    put(trace, "layers.0", Kind::kInput, chosen, DType::kInt64);
    trace.edit().modules[0].inputs = {"layers.0.router"};
    return trace;
  };
  Run run = flipped();
  run.loss = 1;
  const CompareReport out = engine::compare_traces(made(Run(), 0), made(run, 0), {}, {{}, 1});
  CHECK(outcome_of(out, "layers.0", Kind::kInput) == Outcome::kRoutingFlip);
  CHECK(out.verdict == answer::Verdict::kRight);
  // Another choice than the router's is not.
  const CompareReport other = engine::compare_traces(made(Run(), 0), made(run, 1), {}, {{}, 1});
  CHECK(outcome_of(other, "layers.0", Kind::kInput) != Outcome::kRoutingFlip);
  CHECK(other.verdict != answer::Verdict::kRight);
}

TEST_CASE("where nothing remains unjudged the run matches, and the flips are told") {
  Run run = flipped();
  run.loss = 1;
  const CompareReport out = compared(run);
  CHECK(out.verdict == answer::Verdict::kRight);
  CHECK(out.routers.size() == 1);
  CHECK(out.counts.at(Outcome::kRoutingFlip) == 1);
  CHECK(out.counts.at(Outcome::kAfterRoutingFlip) == 0);
}

TEST_CASE("another token's rows are judged as ever") {
  Run run = flipped();
  run.outputs[2] = {31, 40};
  const CompareReport out = compared(run);
  CHECK(out.verdict == answer::Verdict::kWrong);
  CHECK(outcome_of(out, "layers.0") == Outcome::kDiverged);
  REQUIRE(out.findings.size() == 1);
  const comparison::TensorComparison& result = out.results[out.findings[0].result];
  CHECK(result.key.name == "layers.0");
  CHECK(result.comparison->measurement.total.sum_d2 == 1);
}

TEST_CASE("flips do not excuse what is not finite") {
  Run run = flipped();
  run.loss = std::numeric_limits<double>::quiet_NaN();
  const CompareReport out = compared(run);
  CHECK(out.verdict == answer::Verdict::kWrong);
  CHECK(outcome_of(out, "loss", Kind::kLoss) == Outcome::kDiverged);
  run = flipped();
  run.outputs[0] = {std::numeric_limits<double>::infinity(), 0};
  CHECK(outcome_of(compared(run), "layers.0") == Outcome::kDiverged);
}

TEST_CASE("a choice far from a tie stays a divergence and excuses nothing") {
  Run run = flipped();
  run.chosen[3] = {1, 0, 0};
  const CompareReport out = compared(run);
  CHECK(out.verdict == answer::Verdict::kWrong);
  CHECK(outcome_of(out, "layers.0.router") == Outcome::kDiverged);
  CHECK(outcome_of(out, "layers.0") == Outcome::kDiverged);
  CHECK(out.routers.at(0).unexplained == 1);
  CHECK(out.routers.at(0).first_unexplained == 3);
  CHECK(out.results[out.findings.at(0).result].key.name == "layers.0.router");
}

TEST_CASE("a router whose input is wrong is not in question") {
  Run run = flipped();
  run.inputs[1] = {1, 2};
  run.chosen[1] = {0, 1, 0};
  const CompareReport out = compared(run);
  CHECK(out.routers.empty());
  CHECK(out.results[out.findings.at(0).result].key.kind == Kind::kInput);
}

TEST_CASE("integers without scores are no decisions") {
  MemoryTrace reference;
  MemoryTrace candidate;
  put(reference, "m", Kind::kOutput, {{1, 0}, {0, 1}}, DType::kInt64);
  put(candidate, "m", Kind::kOutput, {{1, 0}, {1, 0}}, DType::kInt64);
  const CompareReport out = engine::compare_traces(reference, candidate, {}, {{}, 1});
  CHECK(out.verdict == answer::Verdict::kWrong);
  CHECK(out.routers.empty());
}

TEST_CASE("copies of the choice that disagree are a conflict, not flips") {
  MemoryTrace candidate(test::make_mesh({{"tp", 2}}));
  const MemoryTrace one = trace_of(flipped());
  for (const trace::TensorEntry& entry : one.manifest().tensors) {
    const Run run = flipped();
    const bool choice = entry.dtype == DType::kInt64;
    std::vector<double> values;
    const Table& rows = choice                           ? run.chosen
                        : entry.key.kind == Kind::kInput ? run.inputs
                        : entry.key.kind == Kind::kParam ? kWeight
                        : entry.key.kind == Kind::kLoss  ? Table{{run.loss}}
                                                         : run.outputs;
    for (const auto& row : rows) values.insert(values.end(), row.begin(), row.end());
    candidate.put(entry, values);
    if (choice) candidate.put_shard(entry, 1, {1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1});
  }
  const CompareReport out = engine::compare_traces(trace_of(Run()), candidate, {}, {{}, 1});
  CHECK(outcome_of(out, "layers.0.router") == Outcome::kReplicaConflict);
  CHECK(out.routers.empty());
}

// A router that recorded its scores, or what it was given, and not what it chose.
struct Silent {
  Table inputs{{1, 1 - kNear}, {2, 1}, {1, 3}, {-5, -5}};
  Table outputs{{10, 10}, {10, 20}, {30, 40}, {50, 60}};
  std::vector<std::size_t> rows{2, 1, 1};  // of the experts; 0: it did not run
  bool with_scores = true;
  bool with_experts = false;
  bool chooses = true;  // or it is a gate that multiplies, and there are no experts

  MemoryTrace made() const {
    MemoryTrace trace;
    put(trace, "layers.0.mlp.gate", Kind::kInput, inputs);
    put(trace, "layers.0.mlp.gate.weight", Kind::kParam, kWeight);
    if (with_scores) {
      Table scores;
      for (const auto& x : inputs) {
        std::vector<double>& row = scores.emplace_back();
        for (const auto& w : kWeight) row.push_back(x[0] * w[0] + x[1] * w[1]);
      }
      put(trace, "layers.0.mlp.gate", Kind::kOutput, scores);
    }
    for (std::size_t e = 0; with_experts && e < rows.size(); ++e) {
      if (rows[e] == 0) continue;
      const std::string name = "layers.0.mlp.experts." + std::to_string(e);
      put(trace, name, Kind::kInput, Table(rows[e], {1, 2}));
      put(trace, name, Kind::kOutput, Table(rows[e], {3, 4}));
    }
    put(trace, "layers.0.mlp", Kind::kOutput, outputs);
    const auto module = [&trace](const std::string& name, std::vector<std::string> from) {
      trace::Module made;
      made.name = name;
      made.computed_from = std::move(from);
      trace.edit().modules.push_back(made);
    };
    module("layers.0.mlp", {"layers.0.mlp.gate"});
    module("layers.0.mlp.gate", {});
    for (std::size_t e = 0; chooses && e < rows.size(); ++e) {
      module("layers.0.mlp.experts." + std::to_string(e), {});
    }
    return trace;
  }
};

Silent flipped_in_silence(Silent run = {}) {
  run.inputs[0] = {1 - kNear, 1};
  run.outputs[0] = {99, 99};
  run.rows = {1, 2, 1};
  return run;
}

CompareReport compared(const Silent& reference, const Silent& candidate) {
  return engine::compare_traces(reference.made(), candidate.made(), {}, {{}, 1});
}

TEST_CASE("a choice that was not recorded follows from the scores") {
  const CompareReport out = compared(Silent{}, flipped_in_silence());
  REQUIRE(out.routers.size() == 1);
  CHECK(out.routers[0].flipped == 1);
  CHECK(outcome_of(out, "layers.0.mlp") == Outcome::kMatch);
  CHECK(out.findings.empty());
}

TEST_CASE("a choice that was not recorded follows from the router's input and weight") {
  Silent reference;
  reference.with_scores = false;
  const CompareReport out = compared(reference, flipped_in_silence(reference));
  REQUIRE(out.routers.size() == 1);
  CHECK(outcome_of(out, "layers.0.mlp") == Outcome::kMatch);
  CHECK(out.findings.empty());
}

TEST_CASE("a gate without experts chooses nothing") {
  Silent gate;
  gate.chooses = false;
  const CompareReport out = compared(gate, flipped_in_silence(gate));
  CHECK(out.routers.empty());
  CHECK(out.verdict == answer::Verdict::kWrong);
}

TEST_CASE("experts that were given other tokens are not judged, if the choices say so") {
  Silent reference;
  reference.with_experts = true;
  const CompareReport out = compared(reference, flipped_in_silence(reference));
  CHECK(out.findings.empty());
  CHECK(out.verdict == answer::Verdict::kInconclusive);
  CHECK(outcome_of(out, "layers.0.mlp.experts.0") == Outcome::kAfterRoutingFlip);
  CHECK(outcome_of(out, "layers.0.mlp.experts.1", Kind::kInput) == Outcome::kAfterRoutingFlip);
  CHECK(outcome_of(out, "layers.0.mlp.experts.2") == Outcome::kMatch);
}

TEST_CASE("an expert that no token went to any more is not missing") {
  Silent reference;
  reference.with_experts = true;
  reference.inputs[1] = {1, 3};  // expert 1 now, so that token 0 is expert 0's only one
  reference.rows = {1, 2, 1};
  Silent candidate = flipped_in_silence(reference);
  candidate.rows = {0, 3, 1};
  const CompareReport out = compared(reference, candidate);
  CHECK(out.findings.empty());
  CHECK(outcome_of(out, "layers.0.mlp.experts.0") == Outcome::kAfterRoutingFlip);
}

TEST_CASE("rows that the choices do not explain stay findings") {
  Silent reference;
  reference.with_experts = true;
  Silent lost = flipped_in_silence(reference);
  lost.rows = {1, 3, 1};  // expert 1 was given a token that did not choose it
  CHECK(compared(reference, lost).verdict == answer::Verdict::kWrong);
  Silent wrong = reference;
  wrong.rows = {1, 2, 1};  // no choice changed
  CHECK(compared(reference, wrong).verdict == answer::Verdict::kWrong);
}

TEST_CASE("another row than the flipped one stays a finding") {
  Silent candidate = flipped_in_silence();
  candidate.outputs[2] = {30, 41};
  CHECK(compared(Silent{}, candidate).verdict == answer::Verdict::kWrong);
}

}  // namespace
}  // namespace ttrace::routing::routing_flips_test
