#include "report/finding_text.h"

#include <sstream>

#include "report/sample_report.h"
#include "report/terminal_text.h"
#include "support/catch.h"

namespace ttrace::report::finding_text_test {
namespace {

using judge::Outcome;

std::string block(const comparison::CompareReport& report, std::size_t width = 0,
                  bool all = false) {
  std::ostringstream out;
  write_findings_of(report, group_findings(report)[0], {1, width, all}, out);
  return out.str();
}

std::string line(const comparison::CompareReport& report, std::size_t group = 0) {
  std::ostringstream out;
  write_line_of(report, group_findings(report)[group], group + 1, out);
  return out.str();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("a finding is told with all its evidence") {
  const std::string text = block(test::diverged_report());
  CHECK(text.find("  1  output  fc  [2] f32      forward\n") == 0);
  CHECK(contains(text,
                 "     error    0.1 of its norm = 8.39e5 ε      allowed 1.91e-6 (16·1.03^0·ε)      "
                 "would pass at k = 8.39e5\n"));
  CHECK(contains(text, "     where    everywhere\n"));
  CHECK(contains(text, "     cause    scaled over tp: 1.1 times the reference\n"));
  CHECK(contains(text, "     before   input of the same module matches\n"));
  CHECK(contains(text, "     after    1 output\n"));
  CHECK(contains(text, "     merged   2 × [2] -> [2], replicas over tp\n"));
  CHECK(contains(text,
                 "     largest  |d| = 0.5 at [1]: reference 4, candidate 4.5 (rank 1 at [1])\n"));
  CHECK(contains(text, "     scale    fitted scale 1.08, left after it 0.06, cosine 0.998\n"));
  CHECK(contains(text, "     code     Linear, called in model.py:7\n"));
  CHECK_FALSE(contains(text, "copies"));
}

TEST_CASE("a finding without causes, followers or code says so or keeps still") {
  const std::string text = block(test::many_findings(1));
  CHECK(contains(text, "cause    unknown: no known cause fits the numbers\n"));
  CHECK(contains(text, "after    no recorded tensor downstream is wrong\n"));
  CHECK_FALSE(contains(text, "code"));
  CHECK_FALSE(contains(text, "merged"));
}

TEST_CASE("several causes are told one after the other") {
  comparison::CompareReport report = test::diverged_report();
  report.findings[0].causes.push_back({"missing_reduction", "", "the sum fits", 0.1});
  CHECK(contains(block(report),
                 "scaled over tp: 1.1 times the reference; or missing_reduction: the sum fits\n"));
}

TEST_CASE("an error against zeros is absolute") {
  comparison::CompareReport report = test::many_findings(1);
  report.results[0] = test::compared("fc", {0, 0}, {0, 0.5}, Outcome::kDiverged);
  CHECK(contains(block(report),
                 "error    0.5, and the reference is zero      allowed 0 "
                 "(16·1.03^0·ε)      no multiplier would pass it\n"));
}

TEST_CASE("integers are told by how many differ") {
  comparison::CompareReport report = test::many_findings(1);
  report.results[0].exact = true;
  report.results[0].reason = "1 of 2 differ";
  CHECK(contains(block(report), "     error    1 of 2 differ\n"));
  CHECK(line(report) == "  1  fc0 · output · step 0: diverged\n");
}

TEST_CASE("a replica conflict says how far the copies are apart") {
  comparison::CompareReport report = test::diverged_report();
  report.results[0].outcome = Outcome::kReplicaConflict;
  report.results[0].comparison->measurement.replicas.change().distance_norm = 5;
  CHECK(contains(block(report), "copies   the copies differ by 1 of the reference's norm\n"));
}

TEST_CASE("the noise rule's multiplier is m") {
  comparison::CompareReport report = test::diverged_report();
  report.results[0].comparison->tolerance.rule = judge::Rule::kNoise;
  CHECK(contains(block(report), "would pass at m = "));
}

TEST_CASE("missing tensors are counted by kind") {
  comparison::CompareReport report = test::report_of(
      answer::Verdict::kWrong,
      {test::unmeasured("layers.3.fc", Outcome::kMissing, "gone"),
       test::unmeasured("layers.3.act", Outcome::kMissing, "gone"),
       test::unmeasured("layers.3.fc.weight", Outcome::kMissing, "gone", trace::Kind::kParam)});
  report.findings = {test::finding_of(0)};
  report.findings[0].members = {0, 1, 2};
  report.findings[0].one_sided_group = "layers.3 (step 0)";
  CHECK(block(report).find("  1  layers.3 (step 0)      forward\n") == 0);
  CHECK(contains(block(report), "     missing  2 output, 1 param in the candidate\n"));
  CHECK(line(report) == "  1  missing: layers.3 (step 0) (3 tensors)\n");
}

TEST_CASE("a single missing tensor is told by its name") {
  comparison::CompareReport report =
      test::report_of(answer::Verdict::kWrong,
                      {test::unmeasured("fc", Outcome::kMissing, "in the reference only")});
  report.findings = {test::finding_of(0)};
  report.findings[0].one_sided_group = "fc (step 0)";
  CHECK(block(report).find("  1  output  fc  [4] f32      forward\n") == 0);
  CHECK(contains(block(report), "missing  1 output in the candidate\n"));
  CHECK(line(report) == "  1  fc · output · step 0: missing\n");
}

TEST_CASE("what failed is told first where it is not the whole") {
  comparison::CompareReport report = test::diverged_report();
  report.findings[0].parts = "the element [1]: |d| = 0.5, allowed 0.1";
  CHECK(contains(block(report), "     error    0.1 of its norm"));
  report.results[0].comparison->tolerance.floor_norm = 1;
  CHECK(contains(block(report),
                 "     error    the element [1]: |d| = 0.5, allowed 0.1; the whole is within: 0.1 "
                 "of its norm"));
  CHECK(line(report) ==
        "  1  fc · output · step 0: diverged, the element [1]: |d| = 0.5, allowed 0.1, scaled over "
        "tp\n");
}

TEST_CASE("another shape is told on both sides") {
  comparison::CompareReport report = test::report_of(
      answer::Verdict::kWrong,
      {test::unmeasured("fc", Outcome::kIncomparable, "reference [4] f32, candidate [8] f32")});
  report.findings = {test::finding_of(0)};
  report.findings[0].merged = "reference [4] f32 (1 × [4] -> [4]); candidate [8] f32 (...)";
  CHECK(contains(block(report),
                 "     shapes   reference [4] f32 (1 × [4] -> [4]); candidate [8] f32 (...)\n"));
  CHECK_FALSE(contains(block(report), "missing"));
  CHECK(line(report) ==
        "  1  fc · output · step 0: incomparable, reference [4] f32, candidate [8] f32\n");
}

TEST_CASE("of a group the finding furthest out is shown, and all of them when asked for") {
  comparison::CompareReport report = test::report_of(
      answer::Verdict::kWrong, {test::compared("layers.0.n.weight", {3, 4}, {3, 4.5},
                                               Outcome::kDiverged, trace::Kind::kMainGrad),
                                test::compared("layers.1.n.weight", {3, 4}, {3, 6},
                                               Outcome::kDiverged, trace::Kind::kMainGrad)});
  report.findings = {test::finding_of(0), test::finding_of(1)};
  for (comparison::ComparedFinding& finding : report.findings) finding.class_name = "LayerNorm";
  const std::string text = block(report);
  CHECK(text.find("  1  main_grad of 2 LayerNorm parameters (layers.*.n.weight)      ") == 0);
  CHECK(contains(text, "     shown    layers.1.n.weight · main_grad · step 0 [2] f32, the one "));
  CHECK(contains(text, "error    0.4 of its norm"));
  CHECK_FALSE(contains(text, "error    0.1 of its norm"));
  const std::string all = block(report, 0, true);
  CHECK(contains(all, "     main_grad  layers.0.n.weight  [2] f32\n"));
  CHECK(contains(all, "error    0.4 of its norm"));
  CHECK(contains(all, "error    0.1 of its norm"));
  CHECK(
      line(report) ==
      "  1  main_grad of 2 LayerNorm parameters (layers.*.n.weight): diverged, error up to 0.4\n");
}

TEST_CASE("a setting is told with both values and what follows from it") {
  comparison::CompareReport report = test::diverged_report();
  comparison::SettingDifference lr{3, "lr", "0.1", "0.2", {"fc.weight", "head.weight"}, {0, 1}};
  report.results[1].outcome = Outcome::kMatch;
  std::ostringstream out;
  write_setting(report, lr, {2, 0, false}, out);
  CHECK(out.str() ==
        "  2  lr of 2 parameters, step 3      a setting of the optimizer\n"
        "     values   reference 0.1, candidate 0.2\n"
        "     of       fc.weight, head.weight\n"
        "     after    1 of their 2 updated parameters are wrong under the reference's setting\n");
}

TEST_CASE("a finding in one line names its first cause") {
  CHECK(line(test::diverged_report()) ==
        "  1  fc · output · step 0: diverged, error 0.1, scaled over tp\n");
  CHECK(line(test::many_findings(2), 1) == "  2  fc1 · output · step 0: diverged, error 0.1\n");
}

TEST_CASE("evidence is folded to the width of the terminal") {
  std::istringstream lines(block(test::diverged_report(), 60));
  bool folded = false;
  for (std::string text; std::getline(lines, text);) {
    folded = folded || text.find("              ") == 0;
    if (text.find("     ") == 0) CHECK(text.size() <= 64);  // some characters have two bytes
  }
  CHECK(folded);
}

}  // namespace
}  // namespace ttrace::report::finding_text_test
