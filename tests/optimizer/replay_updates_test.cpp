#include "optimizer/replay_updates.h"

#include <cmath>

#include "base/error.h"
#include "engine/compare_traces.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::optimizer::replay_updates_test {
namespace {

using comparison::CompareReport;
using comparison::TensorComparison;
using test::make_entry;
using test::MemoryTrace;
using trace::Kind;

// One SGD step with lr 0.5 of w = {1, 2, 3, 4}, over two ranks' ranges.
struct Run {
  std::vector<double> gradient{4, 2, -2, 8};
  std::vector<double> after{-1, 1, 4, 0};
  std::vector<double> state;
  double momentum = 0;
  double updates = 1;
  std::optional<double> clip_norm;
  std::vector<double> norms;
  trace::Placement gradient_placement = trace::Flat{{{0, 3}, {3, 4}}};
  std::uint64_t ranks = 2;

  MemoryTrace made() const {
    MemoryTrace trace(test::make_mesh({{"dp", ranks}}));
    const auto put = [&](const std::string& name, Kind kind, const std::vector<double>& values,
                         const trace::Placement& placement, std::uint64_t call = 0) {
      trace::TensorEntry entry = make_entry(name, {values.size()}, kind);
      entry.key.call = call;
      entry.placements = {{"dp", placement}};
      trace.put(entry, values);
    };
    put("w", Kind::kParam, {1, 2, 3, 4}, trace::Replicate{});
    put("w", Kind::kMainGrad, gradient, gradient_placement);
    const trace::Placement cut = trace::Flat{{{0, 3}, {3, 4}}};
    put("w", Kind::kParamAfterStep, after, ranks == 2 ? cut : trace::Replicate{});
    if (!state.empty()) put("w.momentum_buffer", Kind::kOptimizerState, state, trace::Replicate{});
    for (std::size_t i = 0; i < norms.size(); ++i) {
      put("grad_norm", Kind::kGradNorm, {norms[i]}, trace::Replicate{}, i);
    }
    trace::OptimizerGroup group;
    group.type = "sgd";
    group.numbers = {{"lr", 0.5}, {"momentum", momentum}, {"updates", updates}};
    if (clip_norm) group.numbers["clip_norm"] = *clip_norm;
    group.params = {"w"};
    trace.edit().optimizer = {group};
    return trace;
  }
};

struct Judged {
  TensorComparison result;
  std::vector<std::string> warnings;
};

Judged judged(const MemoryTrace& trace, unsigned threads = 1) {
  const comparison::CompareReport report =
      engine::compare_traces(trace, trace, {}, {{}, {threads}});
  for (const TensorComparison& result : report.results) {
    if (result.key.kind == Kind::kParamAfterStep) return {result, report.warnings};
  }
  throw std::logic_error("no updated parameter");
}

Judged judged(const Run& run, unsigned threads = 1) { return judged(run.made(), threads); }

bool is_replayed_and(judge::Outcome outcome, const Run& run) {
  const Judged found = judged(run);
  return found.result.outcome == outcome && found.result.comparison->replay &&
         found.warnings.empty();
}

// The reason that the one warning gives, empty if it was replayed.
std::string reason(const Judged& found) {
  if (found.result.comparison->replay) return "";
  REQUIRE(found.warnings.size() == 1);
  CHECK(found.result.comparison->tolerance.rule == judge::Rule::kFallback);
  return found.warnings[0].substr(found.warnings[0].find("wider: ") + 7);
}

std::string reason(const Run& run) { return reason(judged(run)); }

using judge::Outcome;

// A step with a learning rate of 1, where the reference has 0.5.
CompareReport with_other_rate(const std::vector<double>& after) {
  Run reference;
  Run run;
  run.after = after;
  MemoryTrace candidate = run.made();
  candidate.edit().optimizer[0].numbers["lr"] = 1;
  return engine::compare_traces(reference.made(), candidate, {}, {{}, {1}});
}

TEST_CASE("an update that follows from another setting is no finding beside it") {
  const CompareReport report = with_other_rate({-3, 0, 5, -4});
  CHECK(report.findings.empty());
  CHECK(report.settings.size() == 1);
  CHECK(report.downstream == 1);
}

TEST_CASE("an update that its own settings do not make is a finding beside another setting") {
  const CompareReport report = with_other_rate({-3, 0, 5.5, -4});
  REQUIRE(report.findings.size() == 1);
  CHECK(report.settings.size() == 1);
  CHECK(report.results[report.findings[0].result].outcome == Outcome::kDiverged);
}

// A run one of whose datasets fails to open once.
class FailingTrace : public trace::Source {
 public:
  FailingTrace(const MemoryTrace& sound, std::uint64_t failing)
      : sound_(sound), failing_(failing) {}

  const std::string& path() const override { return sound_.path(); }
  const trace::Manifest& manifest() const override { return sound_.manifest(); }
  std::string rank_file(std::uint64_t rank) const override { return sound_.rank_file(rank); }
  std::optional<std::string> rank_problem(std::uint64_t rank) const override {
    return sound_.rank_problem(rank);
  }
  std::unique_ptr<trace::Dataset> open(std::uint64_t rank,
                                       const std::string& dataset) const override {
    if (++opened == failing_) throw base::input_error(dataset, ": a read failed");
    return sound_.open(rank, dataset);
  }

  mutable std::uint64_t opened = 0;

 private:
  const MemoryTrace& sound_;
  std::uint64_t failing_;  // its number, from 1 on
};

// Fails each opening of the candidate once: every result is then as without, or unreadable.
void check_failing_reads(const Run& run, const Run& meant) {
  const MemoryTrace reference = meant.made();
  const MemoryTrace made = run.made();
  const auto compared = [&](const FailingTrace& candidate) {
    return engine::compare_traces(reference, candidate, {}, {{}, 1});
  };
  const FailingTrace sound(made, 0);
  const comparison::CompareReport expected = compared(sound);
  REQUIRE(expected.counts.at(Outcome::kUnreadable) == 0);
  bool update_failed = false;
  for (std::uint64_t failing = 1; failing <= sound.opened; ++failing) {
    CAPTURE(failing);
    const comparison::CompareReport report = compared(FailingTrace(made, failing));
    for (std::size_t i = 0; i < report.results.size(); ++i) {
      const TensorComparison& result = report.results[i];
      CAPTURE(to_string(result.key));
      REQUIRE(result.key == expected.results[i].key);
      if (result.outcome != Outcome::kUnreadable) {
        CHECK(result.outcome == expected.results[i].outcome);
        CHECK(result.comparison->replay.has_value() ==
              expected.results[i].comparison->replay.has_value());
        continue;
      }
      CHECK(result.reason.find("a read failed") != std::string::npos);
      CHECK_FALSE(result.comparison);
      update_failed = update_failed || result.key.kind == Kind::kParamAfterStep;
    }
    const bool unreadable = report.counts.at(Outcome::kUnreadable) > 0;
    CHECK(report.verdict == (unreadable && expected.verdict == answer::Verdict::kRight
                                 ? answer::Verdict::kInconclusive
                                 : expected.verdict));
  }
  CHECK(update_failed);
}

TEST_CASE("where a read of a replay fails, the update is unreadable and no rule judges it") {
  Run run;
  run.clip_norm = 100;
  run.norms = {9.3808315196468595};
  check_failing_reads(run, run);
  Run with_state = run;
  with_state.momentum = 0.5;
  with_state.updates = 2;
  with_state.state = {2, 0, 0, 0};
  with_state.after[0] = -1.5;
  check_failing_reads(with_state, with_state);
  Run clipped = run;
  clipped.clip_norm = 2;
  const double factor = 2 / (run.norms[0] + 1e-6);
  clipped.after = {1 - 2 * factor, 2 - factor, 3 + factor, 4 - 4 * factor};
  check_failing_reads(clipped, clipped);
}

TEST_CASE("an updated parameter is judged by its own gradient") {
  CHECK(is_replayed_and(Outcome::kMatch, {}));
  Run wrong;
  wrong.after[3] = 1;
  for (const unsigned threads : {1U, 3U}) {
    const Judged found = judged(wrong, threads);
    CHECK(found.result.outcome == Outcome::kDiverged);
    const comparison::Replay& replay = *found.result.comparison->replay;
    CHECK(replay.outside == 1);
    CHECK(replay.unmoved == 0);
    REQUIRE(replay.worst);
    CHECK(replay.worst->at == tensor::Shape{3});
    CHECK(replay.worst->replayed == 0);
    CHECK(replay.worst->candidate == 1);
    REQUIRE(replay.worst->place);
    CHECK(replay.worst->place->rank == 1);
    CHECK(replay.worst->place->local == tensor::Shape{0});
    CHECK(replay.reference_difference_norm == 0);
  }
}

TEST_CASE("clipping is replayed by the recorded norm, before or after which gradients were taken") {
  Run run;
  run.clip_norm = 2;
  run.norms = {9.3808315196468595};  // of the gradient
  const double factor = 2 / (run.norms[0] + 1e-6);
  run.after = {1 - 2 * factor, 2 - factor, 3 + factor, 4 - 4 * factor};
  CHECK(is_replayed_and(Outcome::kMatch, run));
  Run unclipped = run;
  unclipped.after = Run{}.after;
  CHECK(is_replayed_and(Outcome::kDiverged, unclipped));
  Run taken_after = run;
  for (double& value : taken_after.gradient) value *= factor;
  CHECK(is_replayed_and(Outcome::kMatch, taken_after));
  Run lenient = unclipped;
  lenient.clip_norm = 100;
  CHECK(is_replayed_and(Outcome::kMatch, lenient));
}

TEST_CASE("clipping by a norm that was not recorded is replayed by that of all main gradients") {
  Run run;
  run.clip_norm = 2;
  const double factor = 2 / (9.3808315196468595 + 1e-6);
  run.after = {1 - 2 * factor, 2 - factor, 3 + factor, 4 - 4 * factor};
  CHECK(is_replayed_and(Outcome::kMatch, run));
  Run unclipped = run;
  unclipped.after = Run{}.after;
  CHECK(is_replayed_and(Outcome::kDiverged, unclipped));
  Run lenient = unclipped;
  lenient.clip_norm = 100;
  CHECK(is_replayed_and(Outcome::kMatch, lenient));
  Run at_the_limit = unclipped;
  at_the_limit.clip_norm = 9.3808315196468595;
  CHECK(is_replayed_and(Outcome::kMatch, at_the_limit));
}

TEST_CASE("without all main gradients a clipping whose norm was not recorded is not replayed") {
  Run run;
  run.clip_norm = 100;
  const auto with_another = [&](const std::vector<std::string>& raw, bool recorded = true) {
    MemoryTrace trace = run.made();
    trace.edit().optimizer.at(0).params.push_back("other");
    if (recorded) trace.put(make_entry("other", {4}, Kind::kParam), run.gradient);
    for (const std::string& name : raw) {
      trace.put(make_entry(name, {4}, Kind::kParamGrad), run.gradient);
    }
    return reason(judged(trace));
  };
  const std::string lacking =
      "gradients are clipped, but neither their norm nor all of them were recorded (1)";
  CHECK(with_another({}) == lacking);
  CHECK(with_another({"w", "other"}) == lacking);
  CHECK(with_another({"w"}, false) == lacking);
  CHECK(with_another({"w"}).empty());  // no micro-batch has used it
}

TEST_CASE("a norm that does not tell what was clipped judges nothing") {
  Run run;
  run.clip_norm = 2;
  run.norms = {std::numeric_limits<double>::infinity()};
  CHECK(reason(run) == "the gradient norm is not finite (1)");
  run.norms = {9.38, 7};
  CHECK(reason(run) == "there are several gradient norms (1)");
  run.norms = {9.38};
  run.gradient = {0.1, 0, 0, 0};
  CHECK(reason(run).find("whether they are clipped cannot be told") != std::string::npos);
}

TEST_CASE("state that an update needs and was not recorded judges nothing") {
  Run run;
  run.momentum = 0.5;
  CHECK(is_replayed_and(Outcome::kMatch, run));  // the first update has none
  run.updates = 2;
  CHECK(reason(run) == "the optimizer's state was not recorded (1)");
  run.state = {2, 0, 0, 0};
  CHECK(is_replayed_and(Outcome::kDiverged, run));
  run.after[0] = -1.5;
  CHECK(is_replayed_and(Outcome::kMatch, run));
}

TEST_CASE("copies of a parameter that differ as those of its gradient do follow from them") {
  Run run;
  run.gradient_placement = trace::Replicate{};
  const MemoryTrace reference = run.made();
  MemoryTrace candidate = run.made();
  const auto differ_on_rank_1 = [&](Kind kind, const std::vector<double>& values) {
    trace::TensorEntry entry = make_entry("w", {4}, kind);
    entry.placements = {{"dp", trace::Replicate{}}};
    for (trace::TensorEntry& known : candidate.edit().tensors) {
      if (known.key == entry.key) known = entry;
    }
    candidate.put_shard(entry, 0, kind == Kind::kMainGrad ? run.gradient : run.after);
    candidate.put_shard(entry, 1, values);
  };
  differ_on_rank_1(Kind::kMainGrad, {8, 2, -2, 8});
  differ_on_rank_1(Kind::kParamAfterStep, {-3, 1, 4, 0});
  const comparison::CompareReport report =
      engine::compare_traces(reference, candidate, {}, {{}, 1});
  REQUIRE(report.findings.size() == 1);
  const comparison::ComparedFinding& finding = report.findings.front();
  CHECK(report.results[finding.result].key.kind == Kind::kMainGrad);
  REQUIRE(finding.downstream.size() == 1);
  const TensorComparison& after = report.results[finding.downstream.front()];
  CHECK(after.key.kind == Kind::kParamAfterStep);
  CHECK(after.outcome == Outcome::kReplicaConflict);
  CHECK(after.comparison->replay);
}

TEST_CASE("a gradient that is still the sum of two ranks is rounded once") {
  Run run;
  run.gradient_placement = trace::Partial{trace::Reduction::kSum};
  CHECK(reason(run).empty());
  CHECK(judged(run.made()).result.outcome == Outcome::kMatch);
  run.after[1] = std::nextafter(1.0F, 2.0F);
  CHECK(judged(run.made()).result.outcome == Outcome::kMatch);
  run.after[1] = 1.00001;
  CHECK(judged(run.made()).result.outcome == Outcome::kDiverged);
}

TEST_CASE("a gradient that is still the sum of more ranks judges nothing") {
  Run run;
  run.ranks = 4;
  run.gradient_placement = trace::Partial{trace::Reduction::kSum};
  CHECK(reason(run) == "the main gradient was recorded before its reduction (1)");
}

TEST_CASE("a gradient of another shape judges nothing") {
  Run run;
  run.gradient = {1, 2, 3, 4, 5};
  run.gradient_placement = trace::Replicate{};
  CHECK(reason(run) == "its gradient or state has another shape (1)");
}

}  // namespace
}  // namespace ttrace::optimizer::replay_updates_test
