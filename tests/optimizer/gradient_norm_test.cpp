#include "optimizer/gradient_norm.h"

#include <cmath>

#include "engine/compare_traces.h"
#include "support/catch.h"
#include "support/memory_trace.h"
#include "tensor/codec.h"

namespace ttrace::optimizer::gradient_norm_test {
namespace {

using judge::Outcome;
using tensor::DType;
using test::make_entry;
using test::make_mesh;
using test::MemoryTrace;
using trace::Kind;

constexpr std::size_t kElements = 100'000;

// A step of a job with one gradient and its norm, on two ranks.
struct Run {
  double gradient_factor = 1;  // times the main gradient
  double norm_factor = 1;      // times the norm that was recorded
  double other_rank = 1;       // times that of rank 1
  double clipped_by = 1;       // times the norm
  bool clipped = false;        // the main gradient is recorded after clipping to a norm of 1
  bool with_gradient = true;
  DType computed_in = DType::kFloat32;

  double norm() const {
    double squares = 0;
    for (const double value : gradient()) squares += value * value;
    return std::sqrt(squares);
  }

  std::vector<double> gradient() const {
    std::vector<double> values(kElements);
    for (std::size_t i = 0; i < kElements; ++i) {
      values[i] = static_cast<float>(gradient_factor * std::sin(static_cast<double>(i)));
    }
    return values;
  }

  MemoryTrace made() const {
    MemoryTrace trace(make_mesh({{"dp", 2}}));
    if (with_gradient) {
      trace::TensorEntry entry = make_entry("w", {kElements}, Kind::kMainGrad);
      entry.computed_in = computed_in;
      std::vector<double> values = gradient();
      if (clipped) {
        const double divisor = clipped_by * norm() + 1e-6;
        for (double& value : values) value = static_cast<float>(value / divisor);
      }
      trace.put(entry, values);
    }
    trace::TensorEntry entry = make_entry("grad_norm", {}, Kind::kGradNorm);
    entry.computed_in = computed_in;
    const double recorded = norm_factor * norm();
    trace.put(entry, {static_cast<float>(recorded)});
    trace.put_shard(entry, 1, {static_cast<float>(other_rank * recorded)});
    if (clipped) {
      trace::OptimizerGroup group;
      group.type = "sgd";
      group.numbers = {{"clip_norm", 1.0}};
      trace.edit().optimizer = {group};
    }
    return trace;
  }
};

comparison::CompareReport compared(const Run& reference, const Run& candidate) {
  const MemoryTrace r = reference.made();
  const MemoryTrace c = candidate.made();
  return engine::compare_traces(r, c, {}, {});
}

const comparison::TensorComparison& norm_of(const comparison::CompareReport& report) {
  for (const comparison::TensorComparison& result : report.results) {
    if (result.key.kind == Kind::kGradNorm) return result;
  }
  throw std::logic_error("no gradient norm");
}

Run in_bf16() {
  Run run;
  run.computed_in = DType::kBFloat16;
  return run;
}

TEST_CASE("a norm of another sign diverges") {
  for (const bool clipped : {false, true}) {
    Run negative;
    negative.clipped = clipped;
    Run right = negative;
    negative.norm_factor = -1;
    const comparison::CompareReport report = compared(right, negative);
    CHECK(report.verdict == answer::Verdict::kWrong);
    CHECK(report.results[report.findings.front().result].key.kind == Kind::kGradNorm);
    CHECK(compared(right, right).verdict == answer::Verdict::kRight);
  }
}

TEST_CASE("a norm that lost digits in its sum matches, as the gradients do") {
  // As torch's CPU norm of 2.4 million elements: 3.8e-5 low, in one run more than in the other.
  Run reference;
  reference.norm_factor = 1 - 9e-5;
  Run candidate;
  candidate.norm_factor = 1 - 4e-5;
  const comparison::CompareReport report = compared(reference, candidate);
  const comparison::TensorComparison& norm = norm_of(report);
  CHECK(report.verdict == answer::Verdict::kRight);
  CHECK(norm.outcome == Outcome::kMatch);
  REQUIRE(norm.comparison->replay);
  CHECK(norm.comparison->replay->of == "grad_norm");
  CHECK(norm.comparison->tolerance.rule == judge::Rule::kReplay);
}

TEST_CASE("a norm that its gradients do not make diverges, however wide bf16 is") {
  Run wrong = in_bf16();
  wrong.norm_factor = 1.1;
  const comparison::CompareReport report = compared(in_bf16(), wrong);
  CHECK(norm_of(report).outcome == Outcome::kDiverged);
  CHECK_THAT(norm_of(report).reason, Catch::Matchers::Contains("its main gradients"));
  REQUIRE(report.findings.size() == 1);
  CHECK(report.results[report.findings[0].result].key.kind == Kind::kGradNorm);
}

TEST_CASE("ranks that recorded different norms conflict, also within what a sum may lose") {
  // Four ranks of GPT-2 without synchronisation: 0.25 % apart, where the sum may lose 0.4 %.
  Run apart;
  apart.other_rank = 1.0001;
  const comparison::CompareReport report = compared(Run{}, apart);
  CHECK(norm_of(report).outcome == Outcome::kReplicaConflict);
  CHECK(report.verdict == answer::Verdict::kWrong);
}

TEST_CASE("a tenth of a per cent is seen, and the right norm matches") {
  Run wrong = in_bf16();
  wrong.norm_factor = 1.001;
  CHECK(norm_of(compared(in_bf16(), wrong)).outcome == Outcome::kDiverged);
  CHECK(norm_of(compared(in_bf16(), in_bf16())).outcome == Outcome::kMatch);
}

TEST_CASE("ranks that recorded different norms are in conflict") {
  Run wrong = in_bf16();
  wrong.other_rank = 1.04;
  const comparison::CompareReport report = compared(in_bf16(), wrong);
  CHECK(norm_of(report).outcome == Outcome::kReplicaConflict);
  CHECK_THAT(norm_of(report).reason, Catch::Matchers::Contains("different gradient norms"));
}

TEST_CASE("a norm is downstream of the gradient that is wrong") {
  Run wrong;
  wrong.gradient_factor = 1.5;
  const comparison::CompareReport report = compared({}, wrong);
  CHECK(norm_of(report).outcome == Outcome::kDiverged);
  CHECK_FALSE(norm_of(report).comparison->replay);
  REQUIRE(report.findings.size() == 1);
  CHECK(report.results[report.findings[0].result].key.kind == Kind::kMainGrad);
  CHECK(report.downstream == 1);
}

TEST_CASE("a norm that is wrong besides its gradients is a finding of its own") {
  Run wrong;
  wrong.gradient_factor = 1.5;
  wrong.norm_factor = 1.2;
  const comparison::CompareReport report = compared({}, wrong);
  CHECK(report.findings.size() == 2);
}

TEST_CASE("clipping does not hide gradients that were too large before it") {
  Run clipped;
  clipped.clipped = true;
  CHECK(norm_of(compared(clipped, clipped)).outcome == Outcome::kMatch);
  // The gradients were twice as large, and clipping made them the same.
  Run twice = clipped;
  twice.norm_factor = 2;
  CHECK(norm_of(compared(clipped, twice)).outcome == Outcome::kDiverged);
  Run rounded = clipped;
  rounded.norm_factor = 1 - 1.5e-4;
  CHECK(norm_of(compared(clipped, rounded)).outcome == Outcome::kMatch);
}

TEST_CASE("a norm that its gradients were not clipped by diverges") {
  Run clipped = in_bf16();
  clipped.clipped = true;
  Run wrong = clipped;
  wrong.clipped_by = 1.04;
  const comparison::TensorComparison norm = norm_of(compared(clipped, wrong));
  CHECK(norm.outcome == Outcome::kDiverged);
  CHECK(norm.comparison->replay);
}

TEST_CASE("a norm that does not follow from the reference's own gradients is compared as it is") {
  Run partial;  // of some of the gradients only, say
  partial.norm_factor = 0.7;
  const comparison::CompareReport same = compared(partial, partial);
  CHECK(norm_of(same).outcome == Outcome::kMatch);
  CHECK_FALSE(norm_of(same).comparison->replay);
  Run other = partial;
  other.norm_factor = 0.8;
  CHECK(norm_of(compared(partial, other)).outcome == Outcome::kDiverged);
}

TEST_CASE("without all main gradients a norm is compared as it is") {
  Run without;
  without.with_gradient = false;
  const comparison::CompareReport report = compared({}, without);
  const comparison::TensorComparison& norm = norm_of(report);
  CHECK(norm.outcome == Outcome::kMatch);
  CHECK_FALSE(norm.comparison->replay);
}

}  // namespace
}  // namespace ttrace::optimizer::gradient_norm_test
