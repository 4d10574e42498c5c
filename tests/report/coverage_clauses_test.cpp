#include "report/coverage_clauses.h"

#include <limits>

#include "base/message.h"
#include "report/first_line.h"
#include "report/sample_report.h"
#include "support/catch.h"

namespace ttrace::report::coverage_clauses_test {
namespace {

using comparison::SkippedFor;
using comparison::TensorComparison;
using comparison::TraceSide;
using judge::Outcome;

comparison::CompareReport report_of(std::vector<TensorComparison> results) {
  comparison::CompareReport report = test::report_of(answer::Verdict::kRight, std::move(results));
  report.candidate.precision = report.reference.precision;
  return report;
}

std::vector<std::string> texts_of(const comparison::CompareReport& report) {
  std::vector<std::string> texts;
  for (const Clause& clause : coverage_clauses(report)) {
    texts.push_back(base::render(clause.message));
  }
  return texts;
}

using Texts = std::vector<std::string>;

TensorComparison not_recorded(TraceSide lacking, bool incomplete = false) {
  TensorComparison result = test::unmeasured("a", Outcome::kNotRecorded, "run: disk full");
  result.lacking = lacking;
  result.incomplete = incomplete;
  return result;
}

TensorComparison skipped(SkippedFor why) {
  TensorComparison result = test::unmeasured("a", Outcome::kSkippedByRule, "");
  result.skipped = why;
  return result;
}

TEST_CASE("a run of which everything was checked has no clause") {
  CHECK(texts_of(report_of({test::compared("fc", {3, 4}, {3, 4.5})})).empty());
}

TEST_CASE("everything that was not checked is counted, the most serious first") {
  const comparison::CompareReport report = report_of(
      {test::unmeasured("a", Outcome::kAfterRoutingFlip, ""),
       test::unmeasured("a", Outcome::kNotJudged, ""),
       test::unmeasured("a", Outcome::kBelowNoiseFloor, ""),
       test::unmeasured("b", Outcome::kBelowNoiseFloor, ""), not_recorded(TraceSide::kReference),
       not_recorded(TraceSide::kCandidate), test::unmeasured("a", Outcome::kUnreadable, "")});
  CHECK(texts_of(report) == Texts{"1 could not be read", "1 not recorded by the candidate",
                                  "1 not recorded by the reference", "2 below the noise floor",
                                  "1 not judged", "1 not judged after routing flips"});
  for (const Clause& clause : coverage_clauses(report)) {
    CHECK(clause.weight == Clause::Weight::kUnchecked);
  }
}

TEST_CASE("what a side could not record comes with the reason") {
  CHECK(texts_of(report_of({not_recorded(TraceSide::kCandidate, true)})) ==
        Texts{"1 not recorded by the candidate (run: disk full)"});
}

TEST_CASE("a long reason is cut at a word, without the file, and stands in full below") {
  TensorComparison result = not_recorded(TraceSide::kCandidate, true);
  const std::string reason =
      "whole parts of the run were left out: microbatch(n, of=2) needs trace(dp_axis=...), since "
      "the mesh has no axis dp";
  result.reason = "a/long/path/to/the/run: " + reason;
  comparison::CompareReport report = report_of({result});
  report.candidate.path = "a/long/path/to/the/run";
  const std::vector<Clause> clauses = coverage_clauses(report);
  REQUIRE(clauses.size() == 1);
  const std::string brief =
      "1 not recorded by the candidate (whole parts of the run were left out: microbatch(n, of=2) "
      "needs …)";
  CHECK(base::render({clauses[0].in_short, clauses[0].message.values}) == brief);
  FirstLine line{"DIVERGED", "31", std::string(80, 'x'), "", clauses, {}};
  const WrittenFirstLine written = write_first_line(line, {});
  CHECK(written.text == "DIVERGED  " + line.sentence + "; " + brief);
  REQUIRE(written.left_out.size() == 1);
  CHECK(base::render(written.left_out[0].message).find(reason) != std::string::npos);
  // With room for it, the line has it all.
  line.sentence = "x";
  CHECK(write_first_line(line, {}).left_out.empty());
}

TEST_CASE("kinds that neither run has are named, those that a step need not have are not") {
  comparison::CompareReport report = report_of({});
  report.kinds_in_neither = {trace::Kind::kInput, trace::Kind::kGradNorm};
  CHECK(texts_of(report).empty());
  report.kinds_in_neither = {trace::Kind::kLoss, trace::Kind::kMainGrad};
  CHECK(texts_of(report) == Texts{"neither run has loss, main_grad"});
}

TEST_CASE("values that say little are counted where they are the same on both sides") {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  comparison::CompareReport report =
      report_of({test::compared("fc", {3, kNan}, {3, kNan}), test::compared("head", {0, 0}, {0, 0}),
                 test::compared("given", {0, 0}, {0, 0}, Outcome::kMatch, trace::Kind::kParam),
                 test::compared("none", {}, {})});
  CHECK(texts_of(report) ==
        Texts{"1 holds values that are not finite on both sides (fc · output · step 0)",
              "1 without elements", "1 zero on both sides"});
  report.skipped_steps = {3};
  CHECK(texts_of(report).front() == "a loss scaler skipped step 3 on both sides");
  report.skipped_steps = {3, 7};
  CHECK(texts_of(report).front() == "a loss scaler skipped 2 steps on both sides, the first is 3");
}

TEST_CASE("a tolerance that the candidate widens by itself is counted") {
  const trace::TensorEntry reference = ttrace::test::make_entry("fc", {2});
  trace::TensorEntry candidate = reference;
  candidate.computed_in = tensor::DType::kBFloat16;
  TensorComparison result = test::compared("fc", {3, 4}, {3, 4.5});
  result.reference = layout::view_of(reference);
  result.candidate = layout::view_of(candidate);
  CHECK(texts_of(report_of({result})) ==
        Texts{"1 judged as bf16 instead of f32, by the candidate's computed_in"});
}

TEST_CASE("what a person leaves out comes last") {
  comparison::CompareReport report =
      report_of({skipped(SkippedFor::kPolicy), skipped(SkippedFor::kMap),
                 skipped(SkippedFor::kSelection), test::unmeasured("a", Outcome::kNotJudged, "")});
  report.tolerance_file = "tol.json";
  report.map_rules = "map.json";
  report.left_out = comparison::LeftOut{2, 1};
  CHECK(
      texts_of(report) ==
      Texts{"1 not judged", "1 skipped by rules of tol.json", "1 dropped by map.json",
            "3 tensors that only one side has left out (2 of the reference, 1 of the candidate)"});
}

}  // namespace
}  // namespace ttrace::report::coverage_clauses_test
