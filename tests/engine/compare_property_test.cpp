#include <algorithm>
#include <set>
#include <sstream>

#include "base/error.h"
#include "engine/compare_traces.h"
#include "engine/random_runs.h"
#include "report/text_report.h"
#include "report/told_json.h"
#include "support/catch.h"

namespace ttrace::engine::compare_property_test {
namespace {

using answer::Verdict;
using comparison::CompareReport;
using judge::Outcome;
using test::RandomRuns;

comparison::Selection random_selection(RandomRuns& runs) {
  comparison::Selection selection;
  if (!runs.chance(4)) return selection;
  if (runs.chance(2)) selection.kinds = {trace::Kind::kOutput, trace::Kind::kMainGrad};
  if (runs.chance(2)) selection.skip = {"b*"};
  if (runs.chance(2)) selection.steps = {runs.below(2)};
  return selection;
}

std::set<trace::TensorKey> union_of_keys(const RandomRuns& runs) {
  std::set<trace::TensorKey> keys;
  for (const auto* trace : {&runs.reference, &runs.candidate}) {
    for (const trace::TensorEntry& entry : trace->manifest().tensors) keys.insert(entry.key);
  }
  return keys;
}

std::string json_without_environment(const CompareReport& out) {
  std::istringstream lines(test::json_text(out));
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("  \"environment\"") != 0) text += line + "\n";
  }
  return text;
}

// Every key once, the counts those of the results, findings and downstream all that is bad.
void check_accounting(const RandomRuns& runs, const CompareReport& out) {
  std::set<trace::TensorKey> seen;
  std::map<Outcome, std::uint64_t> counts;
  for (const Outcome outcome : judge::kAllOutcomes) counts[outcome] = 0;
  std::size_t bad = 0;
  for (const comparison::TensorComparison& result : out.results) {
    REQUIRE(seen.insert(result.key).second);
    ++counts[result.outcome];
    bad += judge::is_bad(result.outcome) ? 1 : 0;
  }
  REQUIRE(seen == union_of_keys(runs));
  REQUIRE(counts == out.counts);
  std::size_t told = out.downstream;
  for (const comparison::ComparedFinding& finding : out.findings) told += finding.members.size();
  REQUIRE(told == bad);
}

void check_selection(const comparison::Selection& selection, const CompareReport& out) {
  for (const comparison::TensorComparison& result : out.results) {
    REQUIRE((result.outcome == Outcome::kSkippedByRule) == !selection.selects(result.key));
  }
}

void check_verdict(const CompareReport& out) {
  bool checked = false;
  bool unchecked = false;
  bool bad = false;
  std::size_t in_common = 0;
  for (const comparison::TensorComparison& result : out.results) {
    const Outcome outcome = result.outcome;
    checked = checked ||
              (outcome == Outcome::kMatch && result.comparison->measurement.total.elements > 0);
    // Updates that cannot be replayed are common, and what they start from is judged.
    unchecked = unchecked || outcome == Outcome::kUnreadable ||
                (outcome == Outcome::kNotJudged && result.key.kind != trace::Kind::kParamAfterStep);
    bad = bad || judge::is_bad(outcome);
    in_common += outcome != Outcome::kMissing && outcome != Outcome::kExtra ? 1 : 0;
    const bool measured = outcome == Outcome::kMatch || outcome == Outcome::kDiverged ||
                          outcome == Outcome::kBelowNoiseFloor ||
                          outcome == Outcome::kReplicaConflict;
    REQUIRE((!measured || result.comparison.has_value()));
  }
  REQUIRE((out.verdict == Verdict::kWrong) == (bad && in_common > 0));
  if (out.verdict == Verdict::kRight) {
    REQUIRE(checked);
    REQUIRE_FALSE(unchecked);
  }
  REQUIRE(out.findings.empty() == !bad);
  REQUIRE(out.why.empty() == (out.verdict != Verdict::kInconclusive));
}

// Writers take every report, and no name of a trace moves the cursor.
void check_texts(const CompareReport& out) {
  std::ostringstream text;
  report::write_text(out, {false, true}, text);
  REQUIRE(text.str().find('\x1b') == std::string::npos);
}

TEST_CASE("property: every tensor is accounted for, whatever is wrong with the runs") {
  std::map<Verdict, int> verdicts;
  std::set<Outcome> outcomes;
  int refused = 0;
  for (std::uint32_t seed = 1; seed <= 800; ++seed) {
    RandomRuns runs(seed);
    const comparison::Selection selection = random_selection(runs);
    std::vector<const trace::Source*> noise;
    if (runs.has_noise) noise.push_back(&runs.noise);
    INFO("seed " << seed);
    CompareReport out;
    try {
      out = compare_traces(runs.reference, runs.candidate, noise, {selection, 1});
    } catch (const base::Error& error) {
      REQUIRE(error.kind() == base::ErrorKind::kUsage);
      ++refused;
      continue;
    }
    check_accounting(runs, out);
    check_selection(selection, out);
    check_verdict(out);
    check_texts(out);
    const CompareReport again =
        compare_traces(runs.reference, runs.candidate, noise, {selection, 4});
    REQUIRE(json_without_environment(again) == json_without_environment(out));
    ++verdicts[out.verdict];
    for (const comparison::TensorComparison& result : out.results) outcomes.insert(result.outcome);
  }
  // The runs showed everything there is, but for what needs routers, an unknown optimizer, or a
  // collector that was told to leave things out.
  CHECK(outcomes.size() + 3 == judge::kAllOutcomes.size());
  CHECK(verdicts[Verdict::kRight] > 50);
  CHECK(verdicts[Verdict::kWrong] > 50);
  CHECK(verdicts[Verdict::kInconclusive] > 50);
  CHECK(refused < 200);
}

}  // namespace
}  // namespace ttrace::engine::compare_property_test
