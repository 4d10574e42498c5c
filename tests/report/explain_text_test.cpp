#include "report/explain_text.h"

#include <sstream>

#include "base/error.h"
#include "base/text.h"
#include "report/sample_report.h"
#include "report/told_json.h"
#include "support/catch.h"

namespace ttrace::report::explain_text_test {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string explained(std::size_t number, const std::string& json) {
  std::ostringstream out;
  explain_finding(number, answer::read_answer(json, "r.json"), "r.json", {}, out);
  return out.str();
}

std::string explained(const std::string& word) {
  std::ostringstream out;
  explain_word(word, {}, out);
  return out.str();
}

TEST_CASE("an answer without the finding that was asked for says so") {
  comparison::CompareReport report = test::diverged_report();
  const auto said = [&](std::size_t number) {
    std::ostringstream out;
    explain_answer(number, to_answer(report), "r.json", {}, out);
    return out.str();
  };
  const std::size_t found = report.findings.size();
  CHECK(said(1) == explained(1, test::json_text(report)));
  CHECK(said(found + 1) ==
        base::concat("there is no finding ", found + 1, " to explain, only ", found, "\n"));
  report.findings.clear();
  CHECK(said(1) == "nothing to explain\n");
}

TEST_CASE("a finding is explained from its report") {
  comparison::CompareReport report = test::diverged_report();
  report.findings[0].rejected = {{"stale", 0.5}};
  report.findings[0].record_next = "TTRACE_KINDS=input";
  const std::string text = explained(1, test::json_text(report));
  CHECK(text.starts_with("1  the output of fc is 11/10 times what it should be\n"));
  CHECK(contains(text, "\n  evidence  scaled over tp: 1.1 times the reference\n"));
  CHECK(contains(text, "\n  numbers   error 0.1, allowed 1.91e-6, would pass at m = "));
  CHECK(contains(text, "\n  error in  everywhere\n"));
  CHECK(contains(text, "\n  place     fc, Linear, called in model.py:7\n"));
  CHECK(contains(text, "\n  refused   stale leaves 0.5 of the norm unexplained\n"));
  CHECK(contains(text, "\n  means     All of it is the reference times one factor"));
  CHECK(contains(text, "(Megatron-LM 673)\n"));
  CHECK(contains(text, "\n  record    TTRACE_KINDS=input on both runs\n"));
  CHECK(contains(text, "\n  next      ttrace localize ref.h5 run/ --report r.json"));
}

TEST_CASE("findings are counted as the report lists them") {
  comparison::CompareReport report = test::many_findings(3);
  const std::string three = test::json_text(report);
  CHECK(contains(explained(3, three), "3  first wrong is the output of fc2, "));
  CHECK(contains(explained(3, three), "\n  evidence  no known cause fits the numbers\n"));
  for (comparison::ComparedFinding& finding : report.findings)
    finding.causes = {{"stale", "", "as before", 0, {{"earlier", std::string("of step 0")}}}};
  const std::string one = test::json_text(report);
  CHECK(
      contains(explained(1, one), "1  the outputs of all 3 modules are stale: the value of step"));
  for (const std::size_t number : {0, 2}) CHECK_THROWS_AS(explained(number, one), base::Error);
  CHECK_THROWS_AS(explained(1, "{\"schema\": \"ttrace.plan/1\"}"), base::InputError);
  CHECK_THROWS_AS(explained(1, "no json"), base::InputError);
  report.settings = {{0, "lr", "0.1", "0.2", {"fc.weight"}, {}}};
  CHECK(contains(explained(2, test::json_text(report)), "lr: reference 0.1, candidate 0.2"));
}

TEST_CASE("causes and words are explained, and others name the nearest") {
  CHECK(contains(explained("stale"), "(Megatron-LM 663)"));
  CHECK(contains(explained("m"), "4 unless a rule"));
  CHECK(explained("epsilon") == explained("ε"));
  CHECK_THROWS_WITH(explained("stael"), Catch::Contains("stale"));
}

}  // namespace
}  // namespace ttrace::report::explain_text_test
