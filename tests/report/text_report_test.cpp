#include "report/text_report.h"

#include <algorithm>
#include <sstream>

#include "report/sample_report.h"
#include "support/catch.h"

namespace ttrace::report {
namespace {

using verdict::Outcome;

std::string text_of(const CompareReport& report, const TextStyle& style = {}) {
  std::ostringstream out;
  write_text(report, style, out);
  return out.str();
}

std::string first_line(const CompareReport& report, const TextStyle& style = {}) {
  const std::string text = text_of(report, style);
  return text.substr(0, text.find('\n'));
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("the first line of a match says how close it was") {
  std::vector<Result> results{test::compared("fc", {3, 4}, {3, 4}),
                              test::compared("head", {3, 4}, {3, 4.5})};
  results[1].comparison->tolerance.unit_norm = 0.25;
  CHECK(first_line(test::report_of(Verdict::kMatch, results)) ==
        "MATCH  2 tensors agree within their tolerances; the closest to its limit used 12 % (head "
        "· output · step 0)");
  results[1].outcome = Outcome::kBelowNoiseFloor;
  CHECK(contains(first_line(test::report_of(Verdict::kMatch, results)),
                 "the closest to its limit used 0 % (fc"));
}

TEST_CASE("a match of integers alone has no limit to be close to") {
  Result ids = test::compared("ids", {1, 2}, {1, 2});
  ids.exact = true;
  CHECK(first_line(test::report_of(Verdict::kMatch, {ids, ids})) ==
        "MATCH  2 tensors agree within their tolerances");
}

TEST_CASE("the first line of a divergence names the first tensor and counts the rest") {
  CHECK(first_line(test::diverged_report()) ==
        "DIVERGED  first at fc · output · step 0        (1 finding, 1 tensor downstream)");
}

TEST_CASE("the first line names a missing layer as a whole") {
  CompareReport report = test::report_of(
      Verdict::kDiverged, {test::unmeasured("layers.3.a", Outcome::kMissing, "gone"),
                           test::unmeasured("layers.3.b", Outcome::kMissing, "gone")});
  report.findings = {test::finding_of(0)};
  report.findings[0].members = {0, 1};
  report.findings[0].one_sided_group = "layers.3 (step 0)";
  CHECK(first_line(report) ==
        "DIVERGED  first at layers.3 (step 0), which is missing        (1 finding, 0 tensors "
        "downstream)");
}

TEST_CASE("the first line of an inconclusive run says why") {
  CompareReport report = test::report_of(Verdict::kInconclusive, {});
  report.why = "nothing was compared";
  CHECK(first_line(report) == "INCONCLUSIVE  nothing was compared");
}

TEST_CASE("colour is used when asked for, and only then") {
  for (const Verdict verdict : {Verdict::kMatch, Verdict::kInconclusive}) {
    CHECK_FALSE(contains(text_of(test::report_of(verdict, {})), "\x1b"));
    CHECK(contains(first_line(test::report_of(verdict, {}), {true, false, 0}), "\x1b[1;3"));
  }
  CHECK_FALSE(contains(text_of(test::diverged_report(), {false, true, 80}), "\x1b"));
  CHECK(first_line(test::diverged_report(), {true, false, 0}).find("\x1b[1;31mDIVERGED\x1b[0m  ") ==
        0);
}

TEST_CASE("the counts name every outcome that occurs") {
  const std::string text = text_of(test::report_of(
      Verdict::kInconclusive,
      {test::compared("a", {1}, {1}), test::unmeasured("b", Outcome::kMissing, ""),
       test::unmeasured("c", Outcome::kExtra, ""), test::unmeasured("d", Outcome::kUnreadable, ""),
       test::unmeasured("e", Outcome::kIncomparable, ""),
       test::unmeasured("f", Outcome::kSkippedByRule, ""),
       test::compared("g", {1}, {1}, Outcome::kBelowNoiseFloor),
       test::compared("h", {1}, {2}, Outcome::kReplicaConflict)}));
  CHECK(contains(text,
                 "  8 tensors: 1 match, 0 diverged, 1 replica conflict, 1 missing, 1 extra, 1 "
                 "unreadable, 1 incomparable, 1 below the noise floor, 1 skipped\n"));
  CHECK(contains(text_of(test::diverged_report()),
                 "2 diverged, 0 replica conflicts (1 first, 1 "
                 "downstream), 0 missing"));
}

TEST_CASE("the footer says what was compared, how and how fast") {
  CompareReport report = test::diverged_report();
  const std::string text = text_of(report);
  CHECK(contains(text, "reference ref.h5 (1 rank, fp32) · candidate run/ (tp 2 = 2 ranks, bf16)"));
  CHECK(
      contains(text, "tolerance by the fallback rule · cpu x86-64, 2 threads · 1.9 GB in 0.12 s"));
  CHECK(contains(text, "The fallback rule knows nothing of the model"));
  CHECK_FALSE(contains(text, "execution order"));
  report.noise_runs = {"noise1.h5", "noise2.h5"};
  report.from_modules = false;
  const std::string noisy = text_of(report);
  CHECK(contains(noisy, "tolerance from 2 noise runs"));
  CHECK_FALSE(contains(noisy, "The fallback rule"));
  CHECK(contains(noisy, "so \"first\" follows the execution order"));
}

TEST_CASE("copies that drift apart within the tolerance are mentioned") {
  Result drifting = test::compared("fc", {3, 4}, {3, 4});
  drifting.comparison->tolerance.unit_norm = 0.25;
  drifting.comparison->measurement.replicas_differ = true;
  drifting.comparison->measurement.replicas.distance_norm = 0.25;
  CHECK(contains(text_of(test::report_of(Verdict::kMatch, {drifting})),
                 "drift: replicas of 1 tensor differ, by less than the tolerance; the furthest by "
                 "6.2 % of it (fc · output · step 0)"));
  drifting.outcome = Outcome::kReplicaConflict;
  CHECK_FALSE(contains(text_of(test::report_of(Verdict::kInconclusive, {drifting})), "drift"));
  CHECK_FALSE(contains(text_of(test::diverged_report()), "drift"));
}

TEST_CASE("a run with 300 findings fits one screen, and all of them are there when asked for") {
  const CompareReport report = test::many_findings(300);
  const std::string text = text_of(report);
  CHECK(std::count(text.begin(), text.end(), '\n') < 45);
  CHECK(contains(text, "\n  and 287 more (--all)\n"));
  CHECK(contains(text, "\n  13  fc12 · output · step 0: diverged, error 0.1\n"));
  CHECK_FALSE(contains(text, "fc13"));
  const std::string all = text_of(report, {false, true, 0});
  CHECK_FALSE(contains(all, "more (--all)"));
  CHECK(contains(all, "\n  300  output  fc299  [2] f32"));
}

TEST_CASE("with all tensors every one has a line with its numbers or its reason") {
  const std::string text =
      text_of(test::report_of(Verdict::kInconclusive,
                              {test::compared("fc", {3, 4}, {3, 4.5}, Outcome::kDiverged),
                               test::compared("zero", {0, 0}, {0, 1}, Outcome::kDiverged),
                               test::unmeasured("lost", Outcome::kUnreadable, "rank 1 is gone")}),
              {false, true, 0});
  CHECK(contains(text, "  diverged           0.1        1.91e-6    "));
  CHECK(contains(text, "  diverged           inf        0          inf     zero · output"));
  CHECK(contains(text,
                 "  unreadable         -          -          -       lost · output · step 0  "
                 "(rank 1 is gone)"));
}

TEST_CASE("traces without a common tensor show no findings, which would answer nothing") {
  CompareReport report = test::many_findings(3);
  report.verdict = Verdict::kInconclusive;
  report.why = "nothing was compared";
  CHECK_FALSE(contains(text_of(report), "fc0"));
}

TEST_CASE("nothing from a file moves the cursor or breaks a line") {
  const std::string evil = "x\x1b[2J\r\x07\x7f\xc2\x9b";
  CompareReport report = test::many_findings(3);
  report.reference.path = report.candidate.path = evil;
  report.reference.precision = evil;
  report.candidate.mesh = {{evil, 2}};
  for (Result& result : report.results) {
    result.key.name = evil;
    result.reason = evil;
  }
  for (Finding& finding : report.findings) {
    finding.class_name = finding.called_at = finding.where = finding.before = evil;
    finding.merged = evil;
    finding.causes = {{"scaled", evil, evil, 0}};
  }
  report.findings[1].members = {1, 2};
  report.findings[1].one_sided_group = evil;
  for (const Verdict verdict : {Verdict::kMatch, Verdict::kDiverged, Verdict::kInconclusive}) {
    report.verdict = verdict;
    report.why = evil;
    for (const std::size_t width : {0, 40}) {
      const std::string text = text_of(report, {false, true, width});
      CHECK(std::none_of(text.begin(), text.end(), [](char c) {
        return (static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7f;
      }));
      CHECK_FALSE(contains(text, "\xc2\x9b"));
    }
  }
}

}  // namespace
}  // namespace ttrace::report
