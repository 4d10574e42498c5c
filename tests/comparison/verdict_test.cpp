#include "comparison/verdict.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::comparison::verdict_test {
namespace {

using judge::Outcome;

// A run with the given outcomes; what matched was compared over four elements.
CompareReport run_of(const std::vector<Outcome>& outcomes) {
  CompareReport out;
  out.reference.ranks = 1;
  out.candidate.ranks = 8;
  for (const Outcome outcome : judge::kAllOutcomes) out.counts[outcome] = 0;
  for (const Outcome outcome : outcomes) {
    TensorComparison result;
    result.key = test::make_key(base::concat("t", out.results.size()));
    result.outcome = outcome;
    if (outcome == Outcome::kMatch || outcome == Outcome::kDiverged ||
        outcome == Outcome::kBelowNoiseFloor || outcome == Outcome::kReplicaConflict) {
      result.comparison.emplace();
      result.comparison->measurement.total.elements = 4;
    }
    ++out.counts[outcome];
    out.results.push_back(std::move(result));
  }
  return out;
}

CompareReport decided(const std::vector<Outcome>& outcomes, std::size_t lost_reference = 0,
                      std::size_t lost_candidate = 0) {
  CompareReport out = run_of(outcomes);
  decide({lost_reference, lost_candidate}, out);
  CHECK(out.why.empty() == (out.verdict != answer::Verdict::kInconclusive));
  return out;
}

TEST_CASE("all tensors matching is a match, those skipped by the user's wish aside") {
  CHECK(decided({Outcome::kMatch}).verdict == answer::Verdict::kRight);
  CHECK(decided({Outcome::kMatch, Outcome::kSkippedByRule}).verdict == answer::Verdict::kRight);
  CHECK(decided({Outcome::kMatch, Outcome::kBelowNoiseFloor}).verdict == answer::Verdict::kRight);
}

TEST_CASE(
    "routing flips do not keep a run from matching, what could not be judged after them does") {
  CHECK(decided({Outcome::kMatch, Outcome::kRoutingFlip}).verdict == answer::Verdict::kRight);
  CHECK(decided({Outcome::kRoutingFlip}).verdict == answer::Verdict::kInconclusive);
  const auto after = decided({Outcome::kMatch, Outcome::kRoutingFlip, Outcome::kAfterRoutingFlip});
  CHECK(after.verdict == answer::Verdict::kInconclusive);
  CHECK(after.why.find("1 of 3 tensors could not be judged") != std::string::npos);
  CHECK(decided({Outcome::kDiverged, Outcome::kAfterRoutingFlip}).verdict ==
        answer::Verdict::kWrong);
}

TEST_CASE("a bad tensor is a divergence, whatever else is wrong") {
  for (const Outcome bad : {Outcome::kDiverged, Outcome::kReplicaConflict, Outcome::kIncomparable,
                            Outcome::kMissing, Outcome::kExtra}) {
    CHECK(decided({bad, Outcome::kMatch}).verdict == answer::Verdict::kWrong);
    CHECK(decided({bad, Outcome::kUnreadable}, 0, 1).verdict == answer::Verdict::kWrong);
    CHECK(decided({bad, Outcome::kNotJudged}).verdict == answer::Verdict::kWrong);
  }
}

TEST_CASE("anything unchecked makes a run inconclusive") {
  const auto unreadable = decided({Outcome::kMatch, Outcome::kMatch, Outcome::kUnreadable});
  CHECK(unreadable.verdict == answer::Verdict::kInconclusive);
  CHECK(unreadable.why == "nothing diverged, but 1 of 3 tensors could not be read");
  const auto unjudged = decided({Outcome::kMatch, Outcome::kNotJudged});
  CHECK(unjudged.verdict == answer::Verdict::kInconclusive);
  CHECK(unjudged.why.find("nothing diverged, but t1 · output · step 0 was not checked") == 0);
}

TEST_CASE("a few updates that were not judged, and what was not recorded, keep a match a match") {
  const auto with_updates = [](std::size_t judged) {
    std::vector<Outcome> outcomes(judged, Outcome::kMatch);
    outcomes.push_back(Outcome::kNotJudged);
    CompareReport out = run_of(outcomes);
    for (TensorComparison& result : out.results) result.key.kind = trace::Kind::kParamAfterStep;
    decide({}, out);
    return out.verdict;
  };
  CHECK(with_updates(9) == answer::Verdict::kRight);
  CHECK(with_updates(8) == answer::Verdict::kInconclusive);
  CHECK(decided({Outcome::kMatch, Outcome::kNotRecorded}).verdict == answer::Verdict::kRight);
}

// One tensor that matches, and one of `kind` that a side was told not to record.
CompareReport with_one_not_recorded(trace::Kind kind, TraceSide lacking) {
  CompareReport out = run_of({Outcome::kMatch, Outcome::kNotRecorded});
  out.results[1].key.kind = kind;
  out.results[1].lacking = lacking;
  decide({}, out);
  return out;
}

TEST_CASE("what the candidate was told not to record of what matters most is not a match") {
  using trace::Kind;
  for (const Kind kind : {Kind::kLoss, Kind::kGradNorm, Kind::kMainGrad}) {
    const CompareReport out = with_one_not_recorded(kind, TraceSide::kCandidate);
    CHECK(out.verdict == answer::Verdict::kInconclusive);
    CHECK(out.why.find("nothing diverged, but the candidate was told not to record 1 ") == 0);
    CHECK(with_one_not_recorded(kind, TraceSide::kReference).verdict == answer::Verdict::kRight);
  }
  CHECK(with_one_not_recorded(Kind::kInput, TraceSide::kCandidate).verdict ==
        answer::Verdict::kRight);
}

// Ten main gradients, `unchecked` of them too noisy, beside a tensor that matches.
answer::Verdict with_noisy_gradients(std::size_t unchecked) {
  std::vector<Outcome> outcomes(11, Outcome::kMatch);
  std::fill_n(outcomes.begin() + 1, unchecked, Outcome::kBelowNoiseFloor);
  CompareReport out = run_of(outcomes);
  for (std::size_t i = 1; i < out.results.size(); ++i) {
    out.results[i].key.kind = trace::Kind::kMainGrad;
  }
  decide({}, out);
  return out.verdict;
}

TEST_CASE(
    "a run whose loss, gradient norm or a tenth of its gradients is unchecked is inconclusive") {
  CHECK(with_noisy_gradients(0) == answer::Verdict::kRight);
  CHECK(with_noisy_gradients(1) == answer::Verdict::kInconclusive);
  for (const trace::Kind kind : {trace::Kind::kLoss, trace::Kind::kGradNorm}) {
    CompareReport out = run_of({Outcome::kMatch, Outcome::kBelowNoiseFloor});
    out.results[1].key.kind = kind;
    out.results[1].reason = "its tolerance is wider than the tensor itself";
    decide({}, out);
    CHECK(out.verdict == answer::Verdict::kInconclusive);
    CHECK(out.why.find("step 0 was not checked (its tolerance is wider") != std::string::npos);
    out = run_of({Outcome::kMatch, Outcome::kSkippedByRule});  // as the user wished
    out.results[1].key.kind = kind;
    decide({}, out);
    CHECK(out.verdict == answer::Verdict::kRight);
  }
}

TEST_CASE("main gradients that are zero but for rounding are checked by a tolerance as wide") {
  const auto with_zeros = [](double allowed) {
    CompareReport out = run_of({Outcome::kMatch, Outcome::kMatch, Outcome::kBelowNoiseFloor});
    for (TensorComparison& result : out.results) {
      result.key.kind = trace::Kind::kMainGrad;
      result.comparison->measurement.total.sum_r2 = 4;
    }
    out.results[2].comparison->measurement.total.sum_r2 = 1e-12;
    out.results[2].comparison->tolerance.floor_norm = allowed;
    decide({}, out);
    return out.verdict;
  };
  CHECK(with_zeros(0.019) == answer::Verdict::kRight);  // of 2, the usual norm
  CHECK(with_zeros(0.021) == answer::Verdict::kInconclusive);
}

TEST_CASE("a run against itself checks nothing, and differs all the same where it does") {
  CompareReport same = run_of({Outcome::kMatch});
  decide({0, 0, true}, same);
  CHECK(same.verdict == answer::Verdict::kInconclusive);
  CHECK(same.why.find("the reference and the candidate are the same run") == 0);
  CompareReport edited = run_of({Outcome::kMatch, Outcome::kDiverged});
  decide({0, 0, true}, edited);
  CHECK(edited.verdict == answer::Verdict::kWrong);
}

TEST_CASE("a lost rank makes a run inconclusive even if all its tensors have copies elsewhere") {
  const auto out = decided({Outcome::kMatch, Outcome::kUnreadable}, 0, 3);
  CHECK(out.verdict == answer::Verdict::kInconclusive);
  CHECK(out.why ==
        "nothing diverged, but 3 of 8 ranks of the candidate could not be read, so 1 of 2 tensors "
        "were not checked");
  CHECK(decided({Outcome::kMatch}, 0, 1).verdict == answer::Verdict::kInconclusive);
  CHECK(decided({Outcome::kMatch}, 1, 0).why.find("1 of 1 ranks of the reference") !=
        std::string::npos);
}

TEST_CASE("a run in which nothing was checked is inconclusive and says why") {
  CHECK(decided({}).why == "nothing was compared: both traces are empty");
  CHECK(decided({Outcome::kBelowNoiseFloor, Outcome::kSkippedByRule}).why ==
        "nothing was really checked: 1 of 2 tensors are below the noise floor, 1 were skipped");
  CHECK(decided({Outcome::kSkippedByRule}).verdict == answer::Verdict::kInconclusive);
}

TEST_CASE(
    "traces without a common tensor are inconclusive, not diverged, and the names are shown") {
  CHECK(decided({Outcome::kMissing}).verdict == answer::Verdict::kInconclusive);
  CHECK(decided({Outcome::kExtra}).verdict == answer::Verdict::kInconclusive);
  const auto out = decided({Outcome::kMissing, Outcome::kExtra, Outcome::kExtra});
  CHECK(out.verdict == answer::Verdict::kInconclusive);
  CHECK(out.why.find("1 tensor only in the reference, 2 only in the candidate") !=
        std::string::npos);
  CHECK(out.why.find("the reference has t0 · output · step 0, the candidate t1") !=
        std::string::npos);
  CompareReport left_out = run_of({Outcome::kNotRecorded, Outcome::kMissing});
  left_out.results[0].lacking = TraceSide::kReference;
  decide({0, 0}, left_out);
  CHECK(left_out.verdict == answer::Verdict::kInconclusive);
  CHECK(left_out.why.find("1 tensor only in the reference, 1 only in the candidate") !=
        std::string::npos);
  const auto lost = decided({Outcome::kMissing}, 0, 8);
  CHECK(lost.why.find("nothing was compared: 8 of 8 ranks of the candidate could not be read") ==
        0);
}

// The contract, said another way than the code says it.
answer::Verdict expected_verdict(const std::set<Outcome>& seen, bool lost) {
  const auto has = [&seen](Outcome outcome) { return seen.count(outcome) > 0; };
  const bool in_common = std::any_of(seen.begin(), seen.end(), [](Outcome outcome) {
    return outcome != Outcome::kMissing && outcome != Outcome::kExtra;
  });
  const bool bad = std::any_of(seen.begin(), seen.end(), judge::is_bad);
  if (in_common && bad) return answer::Verdict::kWrong;
  // One tensor of each outcome, all of them computed by the step.
  const int checked = has(Outcome::kMatch) + has(Outcome::kRoutingFlip);
  const int unchecked = has(Outcome::kBelowNoiseFloor) + has(Outcome::kNotRecorded);
  const bool all_checked = unchecked <= checked && !lost && !bad && !has(Outcome::kUnreadable) &&
                           !has(Outcome::kNotJudged) && !has(Outcome::kAfterRoutingFlip);
  return all_checked && has(Outcome::kMatch) ? answer::Verdict::kRight
                                             : answer::Verdict::kInconclusive;
}

TEST_CASE("every combination of outcomes and lost ranks has its verdict") {
  const std::size_t all = std::size_t{1} << judge::kAllOutcomes.size();
  for (std::size_t subset = 0; subset < all; ++subset) {
    std::vector<Outcome> outcomes;
    for (std::size_t i = 0; i < judge::kAllOutcomes.size(); ++i) {
      if ((subset >> i & 1U) == 1) outcomes.push_back(judge::kAllOutcomes[i]);
    }
    const std::set<Outcome> seen(outcomes.begin(), outcomes.end());
    for (const std::size_t reference : {0, 1}) {
      for (const std::size_t candidate : {0, 1}) {
        CompareReport out = run_of(outcomes);
        decide({reference, candidate}, out);
        INFO("outcomes " << subset << ", lost " << reference << " and " << candidate);
        REQUIRE(out.verdict == expected_verdict(seen, reference + candidate > 0));
        REQUIRE(out.why.empty() == (out.verdict != answer::Verdict::kInconclusive));
      }
    }
  }
}

// Matching tensors and unchecked ones of `kind`.
CompareReport with_unchecked(std::size_t checked, std::size_t unchecked, Outcome outcome,
                             trace::Kind kind) {
  std::vector<Outcome> outcomes(checked, Outcome::kMatch);
  outcomes.insert(outcomes.end(), unchecked, outcome);
  CompareReport out = run_of(outcomes);
  for (TensorComparison& result : out.results) {
    if (result.outcome == outcome) result.key.kind = kind;
  }
  decide({}, out);
  return out;
}

TEST_CASE("more than half of what a step computes unchecked is no match") {
  using trace::Kind;
  for (const Outcome outcome : {Outcome::kBelowNoiseFloor, Outcome::kNotRecorded}) {
    CHECK(with_unchecked(3, 3, outcome, Kind::kOutput).verdict == answer::Verdict::kRight);
    const CompareReport most = with_unchecked(3, 4, outcome, Kind::kGradOutput);
    CHECK(most.verdict == answer::Verdict::kInconclusive);
    CHECK(most.why ==
          "nothing diverged, but 4 of 7 tensors that the step computes were not checked");
  }
  CHECK(with_unchecked(3, 4, Outcome::kSkippedByRule, Kind::kOutput).verdict ==
        answer::Verdict::kRight);
  CHECK(with_unchecked(3, 4, Outcome::kBelowNoiseFloor, Kind::kParam).verdict ==
        answer::Verdict::kRight);
  CHECK(with_unchecked(3, 4, Outcome::kNotJudged, Kind::kParamAfterStep).verdict ==
        answer::Verdict::kInconclusive);
}

TEST_CASE("tensors without elements are no check, also beside some that are too noisy") {
  CompareReport empty = run_of({Outcome::kMatch});
  empty.results[0].comparison->measurement.total.elements = 0;
  decide({}, empty);
  CHECK(empty.verdict == answer::Verdict::kInconclusive);
  CHECK(empty.why == "nothing was compared: the tensors that match have no elements");

  CompareReport noisy = run_of({Outcome::kMatch, Outcome::kBelowNoiseFloor});
  noisy.results[0].comparison->measurement.total.elements = 0;
  decide({}, noisy);
  CHECK(noisy.verdict == answer::Verdict::kInconclusive);
}

// A run in which `nonfinite` of the four values of a tensor of `kind` are not finite on both sides.
CompareReport with_nonfinite(trace::Kind kind, std::uint64_t nonfinite,
                             std::vector<std::uint64_t> skipped_steps = {}) {
  CompareReport out = run_of({Outcome::kMatch, Outcome::kMatch, Outcome::kMatch});
  out.results[1].key.kind = kind;
  out.results[1].comparison->measurement.total.nonfinite_equal = nonfinite;
  out.skipped_steps = std::move(skipped_steps);
  decide({}, out);
  return out;
}

TEST_CASE("a loss, norm, parameter or main gradient that is mostly not finite is no match") {
  using trace::Kind;
  for (const Kind kind :
       {Kind::kLoss, Kind::kGradNorm, Kind::kParam, Kind::kMainGrad, Kind::kParamAfterStep}) {
    CHECK(with_nonfinite(kind, 2).verdict == answer::Verdict::kRight);
    const CompareReport out = with_nonfinite(kind, 3);
    CHECK(out.verdict == answer::Verdict::kInconclusive);
    CHECK(out.why == base::concat("nothing diverged, but most of t1 · ", kind_name(kind),
                                  " · step 0 is not finite on both sides"));
    CHECK(with_nonfinite(kind, 3, {0}).verdict == answer::Verdict::kRight);
    CHECK(with_nonfinite(kind, 3, {1}).verdict == answer::Verdict::kInconclusive);
  }
  CHECK(with_nonfinite(Kind::kOutput, 3).verdict == answer::Verdict::kRight);
}

TEST_CASE("a gradient without a finite value is no doubt in a step that a scaler skipped") {
  CompareReport out = run_of({Outcome::kMatch, Outcome::kNotJudged});
  out.results[1].key.kind = trace::Kind::kMainGrad;
  out.results[1].comparison.emplace();
  out.results[1].comparison->measurement.total.elements = 4;
  out.results[1].comparison->measurement.total.nonfinite_equal = 4;
  decide({}, out);
  CHECK(out.verdict == answer::Verdict::kInconclusive);
  out.skipped_steps = {0};
  decide({}, out);
  CHECK(out.verdict == answer::Verdict::kRight);
}

}  // namespace
}  // namespace ttrace::comparison::verdict_test
