#include "report/text_report.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "report/sample_report.h"
#include "report/terminal_text.h"
#include "support/catch.h"

namespace ttrace::report::text_report_test {
namespace {

using judge::Outcome;

constexpr bool kAll = true;

std::string text_of(const comparison::CompareReport& report,
                    const TextStyle& style = {false, kAll, 0, {}}) {
  std::ostringstream out;
  write_text(report, style, out);
  return out.str();
}

std::string screen_of(const comparison::CompareReport& report) { return text_of(report, {}); }

std::string first_line(const comparison::CompareReport& report, const TextStyle& style = {}) {
  const std::string text = text_of(report, style);
  return text.substr(0, text.find('\n'));
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("the first line of a match says how close it was") {
  std::vector<comparison::TensorComparison> results{test::compared("fc", {3, 4}, {3, 4}),
                                                    test::compared("head", {3, 4}, {3, 4.5})};
  results[1].comparison->tolerance.unit_norm = 0.25;
  CHECK(first_line(test::report_of(answer::Verdict::kRight, results)) ==
        "MATCH  2 tensors agree, nothing unchecked (allowed error: median 0.8, widest 0.8); the "
        "reference ran in fp32, the candidate in bf16; the closest to its limit used 12 % (head · "
        "output · step 0)");
  results[1].outcome = Outcome::kBelowNoiseFloor;
  const std::string one = first_line(test::report_of(answer::Verdict::kRight, results));
  CHECK(one.starts_with("MATCH  1 of 2 tensors agrees (allowed error: "));
  CHECK(
      contains(one, "; 1 below the noise floor; the reference ran in fp32, the candidate in bf16"));
  CHECK(contains(one, "; the closest to its limit used 0 %"));
}

TEST_CASE("the first line says how sharp the check was, by precision") {
  std::vector<comparison::TensorComparison> results;
  for (const double allowed : {1e-6, 3e-6, 2e-6}) {
    results.push_back(test::compared("fc", {3, 4}, {3, 4.5}));
    results.back().comparison->tolerance.multiplier = 0;
    results.back().comparison->tolerance.floor_norm = 5 * allowed;
  }
  comparison::CompareReport report = test::report_of(answer::Verdict::kRight, results);
  CHECK(contains(first_line(report),
                 "agree, nothing unchecked (allowed error: median 2e-6, widest 3e-6)"));
  report.results.push_back(report.results.front());
  report.results.back().comparison->tolerance.epsilon = 0x1p-7;
  report.results.back().comparison->tolerance.floor_norm = 0.5;
  CHECK(contains(first_line(report),
                 "(allowed error: bf16 median 0.1, widest 0.1; f32 median 2e-6, widest "
                 "3e-6)"));
}

TEST_CASE("precisions that differ are told in the first line") {
  comparison::CompareReport report =
      test::report_of(answer::Verdict::kRight, {test::compared("fc", {1}, {1.5})});
  CHECK(contains(first_line(report), "; the reference ran in fp32, the candidate in bf16"));
  CHECK(contains(first_line(test::diverged_report()), "; the reference ran in fp32, the "));
  report.candidate.precision = "fp32";
  CHECK_FALSE(contains(first_line(report), "precision"));
  report.results[0].candidate_dtype = tensor::DType::kBFloat16;
  CHECK(contains(first_line(report),
                 "; the precisions of 1 tensor differ (fc · output · step 0: reference f32, "
                 "candidate bf16)"));
}

TEST_CASE("equal bits are told") {
  comparison::CompareReport report =
      test::report_of(answer::Verdict::kRight,
                      {test::compared("fc", {3, 4}, {3, 4}), test::compared("b", {1}, {1})});
  CHECK(contains(first_line(report), "; all values equal"));
  report.results.push_back(test::compared("c", {1}, {1 + 1e-9}));
  CHECK_FALSE(contains(first_line(report), "all values equal"));
}

TEST_CASE("a match of integers alone has no limit to be close to") {
  comparison::TensorComparison ids = test::compared("ids", {1, 2}, {1, 2});
  ids.exact = true;
  CHECK(first_line(test::report_of(answer::Verdict::kRight, {ids, ids})) ==
        "MATCH  2 tensors agree, nothing unchecked; the reference ran in fp32, the candidate in "
        "bf16; all values equal");
}

TEST_CASE("the first line of a divergence is its sentence, and the first tensor stands below") {
  const comparison::CompareReport report = test::diverged_report();
  CHECK(first_line(report) ==
        "DIVERGED  the output of fc is 11/10 times what it should be; the "
        "reference ran in fp32, the candidate in bf16");
  CHECK(first_line(test::many_findings(3)) ==
        "DIVERGED  first wrong is the output of fc0, forward, step 0; no known cause fits (and 2 "
        "other findings); the reference ran in fp32, the candidate in bf16");
  for (const std::string& text : {screen_of(report), text_of(report)}) {
    CHECK(contains(text, "\n  first at fc · output · step 0 (1 finding, 1 tensor downstream)\n"));
  }
  CHECK(contains(screen_of(test::many_findings(3)), "(3 findings, 0 tensors downstream)"));
}

TEST_CASE("a sentence over findings scaled by several factors says from which to which") {
  comparison::CompareReport report = test::many_findings(3);
  const auto scale_by = [&report](std::initializer_list<std::pair<double, const char*>> factors) {
    std::size_t at = 0;
    for (const auto& [factor, times] : factors) {
      report.findings[at++].causes = {
          {"scaled", "", "", 0, {{"factor", factor}, {"times", std::string(times)}}}};
    }
  };
  scale_by({{1.05, "21/20"}, {1.049, "1.049"}, {1.0504, "1.0504"}});
  CHECK(contains(first_line(report), " are 21/20 times what they should be"));
  scale_by({{1.05, "21/20"}, {0.97, "0.97"}, {1.05, "21/20"}});
  CHECK(contains(first_line(report), " are 0.97 to 1.05 times what they should be"));
  scale_by({{0.97, "0.97"}, {-1, "-1"}, {0.97, "0.97"}});
  CHECK(contains(first_line(report), " are -1 to 0.97 times what they should be"));
}

TEST_CASE("updates that are off and were not judged stand before what goes wrong after them") {
  comparison::CompareReport report = test::many_findings(2);
  for (comparison::TensorComparison& result : report.results) result.key.step = 1;
  for (const char* name : {"a", "b", "c"}) {
    report.results.push_back(
        test::compared(name, {1, 2}, {1, 2}, judge::Outcome::kMatch, trace::Kind::kParamAfterStep));
    report.results.push_back(report.results.back());
    report.results.back().key.step = 1;
    report.results.back().key.kind = trace::Kind::kParam;
  }
  report.reference.steps = {0, 1};
  CHECK(contains(screen_of(report), "; parameters are right"));
  CHECK(contains(screen_of(report), "\n  steps    0 right · 1 first wrong"));

  comparison::TensorComparison& update = report.results[2];
  comparison::TensorComparison& next = report.results[3];
  update.outcome = next.outcome = judge::Outcome::kNotJudged;
  CHECK(contains(first_line(report), "DIVERGED  first wrong is the output of fc0"));
  update.spread = true;
  CHECK(contains(first_line(report),
                 "DIVERGED  1 of 3 updates of step 0 is off without a wrong "
                 "gradient, and cannot be replayed; first wrong after it: forward, step 1"));
  CHECK_FALSE(contains(screen_of(report), "parameters are right"));
  CHECK(contains(screen_of(report),
                 "\n  steps    0 right but for updates not judged · 1 first wrong"));
  CHECK(contains(screen_of(report), "first wrong is the output of fc1"));
  report.results[4].outcome = judge::Outcome::kNotJudged;
  report.results[4].spread = true;
  CHECK(contains(first_line(report),
                 "DIVERGED  2 of 3 updates of step 0 are off without a wrong "
                 "gradient, and cannot be replayed; first wrong after them: forward, step 1"));
  // What goes wrong in the same step is no consequence.
  for (comparison::TensorComparison& result : report.results) result.key.step = 1;
  CHECK(contains(first_line(report), "DIVERGED  first wrong is the output of fc0"));
  CHECK(contains(first_line(report), "; no known cause fits"));
}

TEST_CASE("findings that are one thing are counted as such") {
  comparison::CompareReport report = test::many_findings(3);
  for (comparison::ComparedFinding& finding : report.findings)
    finding.causes = {{"scaled", "tp", "twice", 0, {{"factor", 2.0}, {"times", std::string("2")}}}};
  CHECK(contains(screen_of(report), "(3 findings in 1 group, 0 tensors downstream)"));
  CHECK(contains(first_line(report),
                 "DIVERGED  the outputs of all 3 modules are 2 times what they "
                 "should be; "));
}

TEST_CASE("a setting that differs stands before the updates that it explains") {
  comparison::CompareReport report = test::diverged_report();
  report.settings = {{0, "lr", "0.1", "0.2", {"fc.weight"}, {}}};
  CHECK(contains(screen_of(report), "first at fc · output"));
  CHECK(contains(text_of(report), "\n  2  lr of 1 parameter, step 0"));
  report.results[0].key.kind = trace::Kind::kParamAfterStep;
  CHECK(first_line(report).starts_with(
      "DIVERGED  the optimizers differ: lr is 0.2 instead of 0.1 for parameter fc.weight"));
  CHECK(contains(screen_of(report),
                 "first at lr of 1 parameter · step 0, in which the optimizers differ"));
  CHECK(contains(text_of(report), "\n  2  param_after_step  fc"));
  report.findings.clear();
  CHECK(contains(screen_of(report), "(1 finding, 1 tensor downstream)"));
}

TEST_CASE("a second finding has its phase and its ranks") {
  comparison::CompareReport report = test::diverged_report();
  report.candidate.ranks = 4;
  comparison::ComparedFinding finding = test::finding_of(1);
  finding.causes = {{"stale", "", "as before", 0, {{"earlier", std::string("of step 0")}}}};
  finding.ranks = {1, 3};
  report.findings.push_back(finding);
  const std::string told = "\n  also     2  forward; ranks {1, 3}: the output of head is stale";
  CHECK(contains(screen_of(report), told));
  report.findings.back().causes.clear();
  CHECK(contains(screen_of(report), "no known cause fits; ranks {1, 3}\n"));
}

TEST_CASE("second suspects stand after the findings, with both numbers") {
  comparison::CompareReport report = test::diverged_report();
  report.suspects = {{report.results[1].key, 5400, 1.2, report.results[0].key}};
  CHECK(contains(screen_of(report), "1 tensor downstream, 1 second suspect)"));
  CHECK(contains(screen_of(report), "\n  also     suspect: head · output · step 0, 5400 times"));
  CHECK(contains(text_of(report),
                 "\n  also  head · output · step 0: 5400 times its tolerance, where what it was "
                 "computed from is at most 1.2 times beyond (fc · output · step 0)\n"));
}

TEST_CASE("the first line names a missing layer as a whole") {
  comparison::CompareReport report = test::report_of(
      answer::Verdict::kWrong, {test::unmeasured("layers.3.a", Outcome::kMissing, "gone"),
                                test::unmeasured("layers.3.b", Outcome::kMissing, "gone")});
  report.candidate.precision = "fp32";
  report.findings = {test::finding_of(0)};
  report.findings[0].members = {0, 1};
  report.findings[0].one_sided_group = "layers.3 (step 0)";
  CHECK(first_line(report) == "DIVERGED  the candidate lacks layers.3 (step 0) (2 tensors)");
  CHECK(contains(screen_of(report),
                 "first at layers.3 (step 0), which is missing (1 finding, 0 tensors downstream)"));
}

TEST_CASE("the first line of an inconclusive run says why") {
  comparison::CompareReport report = test::report_of(answer::Verdict::kInconclusive, {});
  report.why = "nothing was compared";
  report.candidate.precision = report.reference.precision;
  CHECK(first_line(report) == "INCONCLUSIVE  nothing was compared");
}

TEST_CASE("what the reason of a verdict counts is not counted again on the first line") {
  comparison::CompareReport report = test::report_of(
      answer::Verdict::kInconclusive, {test::unmeasured("a", Outcome::kUnreadable, "gone"),
                                       test::unmeasured("b", Outcome::kBelowNoiseFloor, "wide")});
  report.candidate.precision = "fp32";
  report.why = "nothing diverged, but 1 of 2 tensors could not be read";
  report.why_is_about = "unreadable";
  CHECK(first_line(report) ==
        "INCONCLUSIVE  nothing diverged, but 1 of 2 tensors could not be read; 1 below the noise "
        "floor");
}

TEST_CASE("what has no place on the first line stands below") {
  std::vector<comparison::TensorComparison> results;
  for (const Outcome outcome : {Outcome::kUnreadable, Outcome::kBelowNoiseFloor,
                                Outcome::kNotJudged, Outcome::kAfterRoutingFlip}) {
    results.push_back(test::unmeasured("a", outcome, "gone"));
  }
  comparison::CompareReport report =
      test::report_of(answer::Verdict::kInconclusive, std::move(results));
  report.why = std::string(150, 'w');
  CHECK(contains(first_line(report), "w; 4 not checked"));
  CHECK(contains(text_of(report), "\n  remark: 1 not judged after routing flips\n"));
  CAPTURE(screen_of(report));
  CHECK(contains(screen_of(report), "after routing flips"));
}

TEST_CASE("colour is used when asked for, and only then") {
  for (const answer::Verdict verdict : {answer::Verdict::kRight, answer::Verdict::kInconclusive}) {
    CHECK_FALSE(contains(text_of(test::report_of(verdict, {})), "\x1b"));
    CHECK(contains(first_line(test::report_of(verdict, {}), {true, false, 0, {}}), "\x1b[1;3"));
  }
  CHECK_FALSE(contains(text_of(test::diverged_report(), {false, true, 80, {}}), "\x1b"));
  CHECK(first_line(test::diverged_report(), {true, false, 0, {}})
            .find("\x1b[1;31mDIVERGED\x1b[0m  ") == 0);
}

TEST_CASE("the counts name every outcome that occurs") {
  const std::string text = text_of(test::report_of(
      answer::Verdict::kInconclusive,
      {test::compared("a", {1}, {1}), test::unmeasured("b", Outcome::kMissing, ""),
       test::unmeasured("c", Outcome::kExtra, ""), test::unmeasured("d", Outcome::kUnreadable, ""),
       test::unmeasured("e", Outcome::kIncomparable, ""),
       test::unmeasured("f", Outcome::kSkippedByRule, ""),
       test::compared("g", {1}, {1}, Outcome::kBelowNoiseFloor),
       test::compared("h", {1}, {2}, Outcome::kReplicaConflict)}));
  CHECK(contains(text,
                 "  8 tensors: 1 match, 1 replica conflict, 1 missing, 1 extra, 1 incomparable, 1 "
                 "unreadable, 1 below the noise floor, 1 skipped\n"));
  CHECK(contains(text_of(test::diverged_report()),
                 "\n  2 tensors: 0 match, 2 diverged (1 first, 1 downstream)\n"));
}

TEST_CASE("what was not judged is told with its reason") {
  comparison::CompareReport report = test::report_of(
      answer::Verdict::kRight,
      {test::compared("a", {1}, {1}), test::unmeasured("b", Outcome::kNotJudged, "nobody knows"),
       test::unmeasured("c", Outcome::kNotJudged, "nobody knows"),
       test::unmeasured("d", Outcome::kNotRecorded, "left out")});
  report.kinds_in_neither = {trace::Kind::kLoss, trace::Kind::kGradNorm};
  const std::string text = text_of(report);
  CHECK(contains(text, "1 match, 2 not judged, 1 not recorded by one side\n"));
  CHECK(contains(text, "  not judged: b · output · step 0 and 1 more: nobody knows\n"));
  CHECK(contains(text, "  not recorded by either side, and so not checked: loss, grad_norm\n"));
}

TEST_CASE("every line is folded to the width") {
  comparison::CompareReport report = test::diverged_report();
  report.warnings = {"a warning"};
  for (const bool all : {false, true}) {
    std::istringstream lines(text_of(report, {true, all, 60, {}}));
    for (std::string line; std::getline(lines, line);) {
      std::size_t columns = 0;
      bool colour = false;
      for (const char c : line) {
        colour = colour || c == '\x1b';
        columns += !colour && (static_cast<unsigned char>(c) & 0xc0U) != 0x80U ? 1 : 0;
        colour = colour && c != 'm';
      }
      INFO(line);
      CHECK(columns <= 60);
    }
  }
}

TEST_CASE("the footer says what was compared, how and how fast") {
  comparison::CompareReport report = test::diverged_report();
  const std::string text = text_of(report);
  CHECK(contains(text, "reference ref.h5 (1 rank, fp32) · candidate run/ (tp 2 = 2 ranks, bf16)"));
  CHECK(
      contains(text, "tolerance by the fallback rule · cpu x86-64, 2 threads · 1.9 GB in 0.12 s"));
  CHECK(contains(text, "The fallback rule does not depend on the model"));
  CHECK_FALSE(contains(text, "execution order"));
  report.noise_runs = {"noise1.h5", "noise2.h5"};
  report.from_modules = false;
  const std::string noisy = text_of(report);
  CHECK(contains(noisy, "tolerance from 2 noise runs"));
  CHECK_FALSE(contains(noisy, "The fallback rule"));
  CHECK(contains(noisy, "so \"first\" follows the execution order"));
}

TEST_CASE("copies that drift apart within the tolerance are mentioned") {
  comparison::TensorComparison drifting = test::compared("fc", {3, 4}, {3, 4});
  drifting.comparison->tolerance.unit_norm = 0.25;
  drifting.comparison->measurement.replicas_differ = true;
  drifting.comparison->measurement.replicas.change().distance_norm = 0.25;
  CHECK(contains(text_of(test::report_of(answer::Verdict::kRight, {drifting})),
                 "drift: replicas of 1 tensor differ, by less than the tolerance; the furthest by "
                 "6.2 % of it (fc · output · step 0)"));
  drifting.outcome = Outcome::kReplicaConflict;
  CHECK_FALSE(
      contains(text_of(test::report_of(answer::Verdict::kInconclusive, {drifting})), "drift"));
  CHECK_FALSE(contains(text_of(test::diverged_report()), "drift"));
}

TEST_CASE("a run with 300 findings fits one screen, and all of them are there when asked for") {
  const comparison::CompareReport report = test::many_findings(300);
  std::string text = screen_of(report);
  CHECK(std::count(text.begin(), text.end(), '\n') <= 15);
  CHECK(contains(text, "\n  also     2  first wrong is the output of fc1, forward, step 0;"));
  CHECK(contains(text, "\n  also     and 296 more findings (--all)\n"));
  CHECK_FALSE(contains(text, "fc9"));
  const std::string all = text_of(report, {false, true, 0, {}});
  CHECK_FALSE(contains(all, "more (--all)"));
  CHECK(contains(all, "\n  300  output  fc299  [2] f32"));
}

TEST_CASE("with all tensors every one has a line with its numbers or its reason") {
  const std::string text =
      text_of(test::report_of(answer::Verdict::kInconclusive,
                              {test::compared("fc", {3, 4}, {3, 4.5}, Outcome::kDiverged),
                               test::compared("zero", {0, 0}, {0, 1}, Outcome::kDiverged),
                               test::unmeasured("lost", Outcome::kUnreadable, "rank 1 is gone")}),
              {false, true, 0, {}});
  CHECK(contains(text, "  diverged           0.1        1.91e-6    "));
  CHECK(contains(text, "  diverged           inf        0          inf     zero · output"));
  CHECK(contains(text,
                 "  unreadable         -          -          -       lost · output · step 0  "
                 "(rank 1 is gone)"));
}

TEST_CASE("traces without a common tensor show no findings, which would answer nothing") {
  comparison::CompareReport report = test::many_findings(3);
  report.verdict = answer::Verdict::kInconclusive;
  report.why = "nothing was compared";
  report.candidate.precision = report.reference.precision;
  CHECK_FALSE(contains(screen_of(report), "fc0"));
  CHECK_FALSE(contains(text_of(report), "first at"));
}

TEST_CASE("nothing from a file moves the cursor or breaks a line") {
  const std::string evil = "x\x1b[2J\r\x07\x7f\xc2\x9b";
  comparison::CompareReport report = test::many_findings(3);
  report.reference.path = report.candidate.path = evil;
  report.reference.precision = evil;
  report.candidate.mesh = {{evil, 2}};
  for (comparison::TensorComparison& result : report.results) {
    result.key.name = evil;
    result.reason = evil;
  }
  for (comparison::ComparedFinding& finding : report.findings) {
    finding.class_name = finding.called_at = finding.where = finding.before = evil;
    finding.merged = evil;
    finding.causes = {{"scaled", evil, evil, 0}};
  }
  report.findings[1].members = {1, 2};
  report.findings[1].one_sided_group = evil;
  for (const answer::Verdict verdict :
       {answer::Verdict::kRight, answer::Verdict::kWrong, answer::Verdict::kInconclusive}) {
    report.verdict = verdict;
    report.why = evil;
    for (const auto& [all, width] : {std::pair{true, 0}, {true, 40}, {false, 0}, {false, 40}}) {
      const std::string text = text_of(report, {false, all, static_cast<std::size_t>(width), {}});
      CHECK(std::none_of(text.begin(), text.end(), [](char c) {
        return (static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7f;
      }));
      CHECK_FALSE(contains(text, "\xc2\x9b"));
    }
  }
}

}  // namespace
}  // namespace ttrace::report::text_report_test
