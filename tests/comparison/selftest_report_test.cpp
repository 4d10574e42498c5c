#include "comparison/selftest_report.h"

#include <sstream>

#include "report/json/selftest_report_json.h"
#include "report/selftest_text.h"
#include "report/text_report.h"
#include "support/catch.h"
#include "support/memory_trace.h"

namespace ttrace::comparison::selftest_report_test {
namespace {

SelftestTensor scaled(const std::string& name, std::optional<double> size) {
  SelftestTensor tensor;
  tensor.key = test::make_key(name);
  tensor.rule = "noise";
  Trial& trial = tensor.trial(FaultKind::kScaled);
  trial.state = size ? TrialState::kCaught : TrialState::kMissed;
  trial.size = size.value_or(0);
  return tensor;
}

SelftestReport ten(std::optional<double> last) {
  SelftestReport report;
  for (int i = 1; i <= 9; ++i) {
    report.tensors.push_back(scaled("a" + std::to_string(i), i / 1000.0));
  }
  report.tensors.push_back(scaled("last", last));
  return report;
}

std::string text_of(const SelftestReport& report, bool all = false) {
  std::ostringstream out;
  report::write_selftest(report, all, out);
  return out.str();
}

TEST_CASE("nine of ten tensors are caught at the ninth smallest size", "[selftest]") {
  const SelftestReport report = ten(0.5);
  const SelftestGroup group = groups_of(report.tensors).at(0);
  const FaultSummary& summary = group.of(FaultKind::kScaled);
  CHECK(summary.tried == 10);
  CHECK(summary.caught == 10);
  CHECK(summary.half == std::optional(5e-3));
  CHECK(summary.nine_of_ten == std::optional(9e-3));
  CHECK(summary.all == std::optional(0.5));
  CHECK(summary.weakest == std::optional<std::size_t>(9));
  CHECK(text_of(report).rfind("DETECTS  scale errors from 0.009 (output f32) in 9 of 10 tensors; "
                              "0 of 10 tensors check nothing\n",
                              0) == 0);
  CHECK(exit_code(report) == 0);
}

TEST_CASE("a tensor whose double passes checks nothing and is named", "[selftest]") {
  const SelftestReport report = ten(std::nullopt);
  const SelftestGroup group = groups_of(report.tensors).at(0);
  CHECK(group.blind == 1);
  CHECK(group.of(FaultKind::kScaled).nine_of_ten == std::optional(9e-3));
  CHECK_FALSE(group.of(FaultKind::kScaled).all);
  const std::string text = text_of(report);
  CHECK(text.find("; 1 of 10 tensors checks nothing\n") != std::string::npos);
  CHECK(text.find("last · output · step 0: twice the value\n") != std::string::npos);
}

TEST_CASE("one of a few that is missed is more than one in ten", "[selftest]") {
  SelftestReport report;
  report.tensors = {scaled("a", 0.1), scaled("b", std::nullopt)};
  CHECK_FALSE(groups_of(report.tensors).at(0).of(FaultKind::kScaled).nine_of_ten);
  CHECK(text_of(report).rfind("DETECTS  no scale error up to a factor of 2", 0) == 0);
}

TEST_CASE("what changes nothing is not counted as tried", "[selftest]") {
  SelftestReport report = ten(0.5);
  report.tensors[0].trial(FaultKind::kRowZeroed).state = TrialState::kUnchanged;
  report.tensors[1].trial(FaultKind::kRowZeroed).state = TrialState::kCaught;
  report.tensors[2].trial(FaultKind::kRowZeroed) = {TrialState::kMissed, 0, "3 of 6"};
  const FaultSummary summary = groups_of(report.tensors).at(0).of(FaultKind::kRowZeroed);
  CHECK(summary.tried == 2);
  CHECK(summary.caught == 1);
  CHECK(summary.unchanged == 1);
  CHECK(summary.weakest == std::optional<std::size_t>(2));
  const std::string text = text_of(report);
  CHECK(text.find(" 1/2 ") != std::string::npos);
  CHECK(text.find("a3 · output · step 0: a row zeroed (3 of 6)\n") != std::string::npos);
  CHECK(text.find("1 fault would change no value") != std::string::npos);
}

TEST_CASE("misses beyond the first few are listed where all are asked for", "[selftest]") {
  SelftestReport report;
  for (int i = 0; i < 12; ++i) {
    report.tensors.push_back(scaled("x" + std::to_string(i), std::nullopt));
  }
  CHECK(text_of(report).find("    and 2 more; --all lists them\n") != std::string::npos);
  CHECK(text_of(report, true).find("x11 · ") != std::string::npos);
}

TEST_CASE("without a match there is no table, and the exit code says which", "[selftest]") {
  SelftestReport report;
  report.pair = answer::Verdict::kWrong;
  report.why = "the pair itself is not a match";
  CHECK(text_of(report) == "DIVERGED  the pair itself is not a match\n");
  CHECK(exit_code(report) == 1);
  report.pair = answer::Verdict::kInconclusive;
  CHECK(exit_code(report) == 3);
  report.pair = answer::Verdict::kRight;
  CHECK(exit_code(report) == 3);
  CHECK(report::selftest_json(report).find("\"exit_code\": 3") != std::string::npos);
}

}  // namespace
}  // namespace ttrace::comparison::selftest_report_test
