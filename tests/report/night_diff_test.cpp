#include <string>

#include "base/error.h"
#include "report/nights/diff_text.h"
#include "report/sample_report.h"
#include "report/told_json.h"
#include "support/catch.h"

namespace ttrace::report {
namespace {

using judge::Outcome;

NightDiff diff_of(const comparison::CompareReport& older, const comparison::CompareReport& newer,
                  const AnswerStyle& style = {}) {
  return diff_nights(read_night(test::json_text(older, style), "old.json"),
                     read_night(test::json_text(newer, style), "new.json"));
}

std::size_t count_of(const NightDiff& diff, Change change) { return diff.of(change).size(); }

TEST_CASE("a report is no news to itself") {
  const NightDiff diff = diff_of(test::diverged_report(), test::diverged_report());
  CHECK(diff.exit_code == 0);
  for (const Change change : kAllChanges) CHECK(count_of(diff, change) == 0);
  CHECK(diff.in_common == test::diverged_report().results.size());
  REQUIRE_FALSE(diff.findings.empty());
  for (const ChangedFinding& one : diff.findings) {
    CHECK(one.status == FindingStatus::kSame);
  }
}

TEST_CASE("what diverged is new, and healed the other way round") {
  comparison::CompareReport healthy = test::diverged_report();
  healthy.findings.clear();
  healthy.settings.clear();
  healthy.suspects.clear();
  std::size_t wrong = 0;
  for (comparison::TensorComparison& result : healthy.results) {
    if (!judge::is_bad(result.outcome)) continue;
    ++wrong;
    result.outcome = Outcome::kMatch;
  }
  healthy.verdict = answer::Verdict::kRight;
  const NightDiff news = diff_of(healthy, test::diverged_report());
  CHECK(news.exit_code == 1);
  CHECK(count_of(news, Change::kNewlyDiverged) >= wrong);
  CHECK(news.findings.front().status == FindingStatus::kNew);
  const NightDiff back = diff_of(test::diverged_report(), healthy);
  CHECK(back.exit_code == 0);
  CHECK(count_of(back, Change::kHealed) == count_of(news, Change::kNewlyDiverged));
  CHECK(back.findings.front().status == FindingStatus::kHealed);
}

TEST_CASE("what is no longer in the report has not healed") {
  comparison::CompareReport without = test::diverged_report();
  const std::size_t wrong = without.findings.front().result;
  comparison::CompareReport renamed = test::diverged_report();
  renamed.results[wrong].key.name = "renamed";
  const NightDiff diff = diff_of(without, renamed);
  CHECK(diff.exit_code == 1);  // it is wrong under its new name
  CHECK(count_of(diff, Change::kHealed) == 0);
  CHECK(count_of(diff, Change::kVanished) == 1);
}

TEST_CASE("of a report of findings alone nothing is said to have healed") {
  const AnswerStyle findings{false, Detail::kFindings};
  const std::string whole = test::json_text(test::diverged_report());
  const std::string part = test::json_text(test::diverged_report(), findings);
  const NightDiff diff = diff_nights(read_night(whole, "old.json"), read_night(part, "new.json"));
  CHECK(diff.exit_code == 0);
  CHECK(count_of(diff, Change::kHealed) == 0);
  CHECK(count_of(diff, Change::kVanished) == 0);
  CHECK(diff.remarks.size() == 1);
}

}  // namespace
}  // namespace ttrace::report
