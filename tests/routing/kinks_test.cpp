#include "routing/kinks.h"

#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>

#include "engine/compare_traces.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::routing::kinks_test {
namespace {

using comparison::CompareReport;
using judge::Outcome;
using test::make_entry;
using test::MemoryTrace;
using trace::Kind;

constexpr double kNear = 1e-7;

// The gradient of fc's output comes through a ReLU, and that of first's from it.
struct Run {
  std::vector<double> argument{1, -2, kNear, 0.5};
  std::vector<double> gradient{1, 0, 0.02, 2};
  std::vector<double> before{3, 4};
  std::vector<double> after{5, 6};
};

void put(MemoryTrace& trace, const std::string& name, Kind kind,
         const std::vector<double>& values) {
  trace::TensorEntry entry = make_entry(name, {values.size()}, kind);
  entry.key.microbatch = 0;
  trace.put(entry, values);
}

MemoryTrace trace_of(const Run& run) {
  MemoryTrace made;
  put(made, "fc", Kind::kOutput, run.argument);
  put(made, "fc", Kind::kGradOutput, run.gradient);
  put(made, "first", Kind::kGradOutput, run.before);
  put(made, "head", Kind::kGradOutput, run.after);
  trace::Module first;
  first.name = "first";
  trace::Module fc;
  fc.name = "fc";
  fc.computed_from = {{"first"}};
  trace::Module head;
  head.name = "head";
  head.computed_from = {{"fc"}};
  made.edit().modules = {first, fc, head};
  return made;
}

// Rounding put element 2 on the other side.
Run flipped() {
  Run run;
  run.argument = {1 + kNear, -2, -kNear, 0.5};
  run.gradient[2] = 0;
  run.before = {3.02, 4};
  return run;
}

CompareReport compared(const Run& candidate) {
  return engine::compare_traces(trace_of(Run()), trace_of(candidate), {}, {{}, 1});
}

Outcome outcome_of(const CompareReport& out, const std::string& name) {
  for (const comparison::TensorComparison& result : out.results) {
    if (result.key.name == name && result.key.kind == Kind::kGradOutput) return result.outcome;
  }
  throw std::out_of_range(name);
}

TEST_CASE("a gradient that a rounding of a kink's argument explains matches") {
  const CompareReport out = compared(flipped());
  REQUIRE(out.kinks.size() == 1);
  CHECK(out.kinks[0].key.name == "fc");
  CHECK(out.kinks[0].argument.kind == Kind::kOutput);
  CHECK(out.kinks[0].flipped == 1);
  CHECK(out.kinks[0].elements == 4);
  CHECK(out.kinks[0].largest == Approx(kNear));
  CHECK(out.kinks[0].moved == Approx(0.02 / std::sqrt(5.0004)));
  CHECK(outcome_of(out, "fc") == Outcome::kMatch);
  CHECK(outcome_of(out, "first") == Outcome::kMatch);
  CHECK(out.verdict == answer::Verdict::kRight);
  for (const comparison::TensorComparison& result : out.results) {
    const bool widened = result.key.kind == Kind::kGradOutput && result.key.name != "head";
    CHECK((result.comparison->tolerance.kinks > 0) == widened);
  }
}

TEST_CASE("what is off by more than the room stays diverged") {
  Run run = flipped();
  run.before = {3.6, 4};  // 0.12 of the norm, where the room is 8 times 0.009
  const CompareReport out = compared(run);
  CHECK(outcome_of(out, "fc") == Outcome::kMatch);
  CHECK(outcome_of(out, "first") == Outcome::kDiverged);
  REQUIRE(out.findings.size() == 1);
  CHECK(out.results[out.findings[0].result].key.name == "first");
}

TEST_CASE("a wrong factor is not within the room of what flips move") {
  constexpr std::size_t kElements = 1024;
  std::vector<double> before(kElements, 1);
  for (std::size_t e = 0; e < kElements; e += 2) before[e] = -1;
  Run reference;
  reference.before = before;
  Run run = flipped();
  run.before = before;
  const auto outcome = [&] {
    return outcome_of(engine::compare_traces(trace_of(reference), trace_of(run), {}, {{}, 1}),
                      "first");
  };
  // 3 % of the norm, where the room is 7 %.
  for (std::size_t e = 0; e < kElements / 2; ++e) run.before[e] = before[e] + 0.03 * 1.41;
  CHECK(outcome() == Outcome::kMatch);
  for (std::size_t e = 0; e < kElements; ++e) run.before[e] = 1.03 * before[e];
  CHECK(outcome() == Outcome::kDiverged);
}

TEST_CASE("what is off by much more than what it is computed from stays diverged") {
  // The flips move the last gradient by 0.9 %, and little of it reaches what lies between.
  const auto trace = [](const Run& run, double between) {
    MemoryTrace made = trace_of(run);
    put(made, "zero", Kind::kGradOutput, {5 + between, 5});
    trace::Module zero;
    zero.name = "zero";
    made.edit().modules.insert(made.edit().modules.begin(), zero);
    made.edit().modules[1].computed_from = {{"zero"}};
    return made;
  };
  Run run = flipped();
  run.before = {3.0001, 4};
  const auto outcome = [&](double between) {
    return outcome_of(engine::compare_traces(trace(Run(), 0), trace(run, between), {}, {{}, 1}),
                      "zero");
  };
  CHECK(outcome(0.0005) == Outcome::kMatch);
  CHECK(outcome(0.05) == Outcome::kDiverged);
}

TEST_CASE("a jump whose kink is not known leaves what follows unjudged") {
  Run run = flipped();
  run.gradient[2] = 0.005;
  const CompareReport out = compared(run);
  CHECK(outcome_of(out, "fc") == Outcome::kNotJudged);
  CHECK(outcome_of(out, "first") == Outcome::kNotJudged);
  CHECK(out.findings.empty());
  run.gradient[2] = 0.0195;  // 3 % off, as all of it may be
  CHECK(outcome_of(compared(run), "fc") == Outcome::kDiverged);
  CHECK(compared(run).kinks.empty());
}

TEST_CASE("room for slices leaves those beyond it") {
  judge::SliceJudgement judgement;
  for (const double off : {5.0, 2.0, 1.5}) {
    judge::Slice slice;
    slice.difference_norm = off;
    slice.tolerance.floor_norm = 1;
    judgement.found.push_back(slice);
  }
  judgement.beyond = 3;
  CHECK(with_room_of_kinks(judgement, 1, 1).beyond == 1);
  CHECK(with_room_of_kinks(judgement, 1, 1).found.front().difference_norm == 5);
  CHECK(with_room_of_kinks(judgement, 4, 4).beyond == 0);
  for (judge::Slice& slice : judgement.found) {
    slice.what = judge::Slice::What::kScale;
    slice.boxes = {tensor::whole({64, 64})};
    slice.reference_norm = 100;
  }
  CHECK(with_room_of_kinks(judgement, 4, 4).beyond == 3);
  judgement.beyond = 4;  // one was not kept, and nobody knows by how much it is off
  CHECK(with_room_of_kinks(judgement, 4, 4).beyond == 4);
}

TEST_CASE("what comes before a flip in the backward pass gets no room") {
  Run run = flipped();
  run.after = {5.02, 6};
  const CompareReport out = compared(run);
  CHECK(outcome_of(out, "head") == Outcome::kDiverged);
}

TEST_CASE("a value that is passed on has the room of all its names") {
  // The data flow does not know that "kept" is the value of "first".
  const auto with_name = [](const Run& run, const std::vector<double>& kept) {
    MemoryTrace made = trace_of(run);
    put(made, "kept", Kind::kGradOutput, kept);
    return made;
  };
  const MemoryTrace reference = with_name({}, Run().before);
  const auto kept_as = [&](const std::vector<double>& kept) {
    return engine::compare_traces(reference, with_name(flipped(), kept), {}, {{}, 1});
  };
  CHECK(outcome_of(kept_as(flipped().before), "kept") == Outcome::kMatch);
  const CompareReport other = kept_as({3, 4.02});
  CHECK(outcome_of(other, "first") == Outcome::kMatch);
  CHECK(outcome_of(other, "kept") == Outcome::kDiverged);
}

TEST_CASE("a kink explains no element that is far from zero, and none on the same side") {
  SECTION("far from zero") {
    Run run = flipped();
    run.gradient = {0, 0, 0.02, 2};
    run.argument = {1 + kNear, -2, kNear, 0.5};
    CHECK(compared(run).kinks.empty());
    CHECK(outcome_of(compared(run), "fc") == Outcome::kDiverged);
  }
  SECTION("another one is off as well") {
    Run run = flipped();
    run.gradient[3] = 2.01;
    CHECK(compared(run).kinks.empty());
    CHECK(outcome_of(compared(run), "fc") == Outcome::kDiverged);
  }
  SECTION("the argument diverged") {
    Run run = flipped();
    run.argument = {1.1, -2, -0.1, 0.5};
    CHECK(compared(run).kinks.empty());
    CHECK(outcome_of(compared(run), "first") == Outcome::kDiverged);
  }
  SECTION("the reference has no gradient to be moved relative to") {
    Run reference;
    reference.gradient = {0, 0, 0, 0};
    Run run = flipped();
    run.gradient = {0, 0, 0.02, 0};
    const CompareReport out =
        engine::compare_traces(trace_of(reference), trace_of(run), {}, {{}, 1});
    CHECK(out.kinks.empty());
    CHECK(outcome_of(out, "fc") == Outcome::kDiverged);
    CHECK(outcome_of(out, "first") == Outcome::kDiverged);
  }
  SECTION("a value is not finite") {
    Run run = flipped();
    run.gradient[1] = std::numeric_limits<double>::quiet_NaN();
    CHECK(compared(run).kinks.empty());
    CHECK(outcome_of(compared(run), "fc") == Outcome::kDiverged);
  }
}

// A gradient of which a noise run flips element 0 of its argument and the candidate element 200,
// each of which moves a row of what is computed from it.
constexpr std::size_t kMany = 256;
constexpr std::size_t kRow = 16;

struct Flip {
  std::size_t at = 0;
  bool argument = true;  // or the gradient alone
};

MemoryTrace many(const std::optional<Flip>& flip) {
  std::vector<double> argument(kMany, 1);
  std::vector<double> gradient(kMany, 1);
  std::vector<double> before(kMany, 1);
  for (const std::size_t at : {std::size_t{0}, std::size_t{200}}) argument[at] = kNear;
  for (std::size_t e = 1; e < kMany; e += 2) gradient[e] = before[e] = -1;
  if (flip) {
    for (double& value : argument) value += value == 1 ? kNear : 0;
    if (flip->argument) argument[flip->at] = -kNear;
    gradient[flip->at] = 0;
    for (std::size_t e = 0; e < kRow; ++e) before[flip->at / kRow * kRow + e] *= 1.02;
  }
  MemoryTrace made = trace_of({argument, gradient, before, {5, 6}});
  return made;
}

CompareReport compared_with_noise(const Flip& candidate) {
  const MemoryTrace reference = many({});
  const MemoryTrace noise = many(Flip{});
  return engine::compare_traces(reference, many(candidate), {&noise}, {{}, 1});
}

TEST_CASE("a gradient that matches since noise runs flip other elements explains parts") {
  const CompareReport out = compared_with_noise({200});
  CHECK(outcome_of(out, "fc") == Outcome::kMatch);
  CHECK(outcome_of(out, "first") == Outcome::kMatch);
  REQUIRE_FALSE(out.kinks.empty());
  CHECK(out.kinks[0].key.name == "fc");
  // The same where the argument is on the same side.
  const CompareReport other = compared_with_noise({200, false});
  CHECK(outcome_of(other, "first") == Outcome::kDiverged);
  CHECK(other.kinks.empty());
}

}  // namespace
}  // namespace ttrace::routing::kinks_test
