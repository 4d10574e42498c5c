#include "report/json/comparison_as_reported.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/text.h"
#include "report/json/compare_report_json.h"
#include "report/json/reported_comparison.h"
#include "report/sample_report.h"
#include "support/catch.h"

namespace ttrace::report::comparison_as_reported_test {
namespace {

using comparison::CompareReport;
using judge::Outcome;
using localize::ReportedComparison;
using Lines = std::vector<std::string>;

template <typename Texts>
void tell(const std::string& what, const Texts& texts, Lines& lines) {
  for (const auto& text : texts) lines.push_back(base::concat(what, " ", text));
}

void tell_keys(const std::string& what, const std::vector<trace::TensorKey>& keys, Lines& lines) {
  for (const trace::TensorKey& key : keys) lines.push_back(base::concat(what, " ", id_of(key)));
}

std::string told(const base::Message::Value& value) {
  return std::visit([](const auto& one) { return base::concat(one); }, value) + "/" +
         std::to_string(value.index());
}

void tell(const localize::LocalizedFinding& finding, Lines& lines) {
  lines.push_back(base::concat(
      "finding ", finding.id, " | ", finding.title, " | ", finding.headline, " | ", finding.outcome,
      " | ", finding.shown ? id_of(*finding.shown) : "nothing", " | ",
      localize::name_of(finding.place.kind), " of ", finding.place.of, " | ", finding.class_name,
      " | ", finding.called_at, " | ", finding.where, " | ", finding.downstream));
  tell("member", finding.members, lines);
  tell_keys("key", finding.keys, lines);
  tell("depends on", finding.depends_on, lines);
  tell("rank", finding.ranks, lines);
  for (const answer::Cause& cause : finding.causes) {
    lines.push_back(base::concat("cause ", cause.name, " | ", cause.axis, " | ", cause.evidence,
                                 " | ", cause.unexplained, cause.fits ? " fits" : ""));
    for (const auto& [name, value] : cause.values) lines.push_back(name + " = " + told(value));
  }
  for (const answer::RejectedCause& one : finding.rejected) {
    lines.push_back(base::concat("rejected ", one.name, " ", one.unexplained));
  }
}

// All of it but for what identifies files, which localize looks up itself.
Lines told(const ReportedComparison& reported) {
  Lines lines{base::concat(reported.file, " | ", reported.verdict, " | ", reported.exit_code, " | ",
                           reported.why, " | ", reported.besides, " | ", reported.common, " | ",
                           reported.layout_rules, " | ", reported.tensors, " | ", reported.skipped,
                           " | ", reported.other_start)};
  for (const answer::TraceFacts* facts : {&reported.reference, &reported.candidate}) {
    lines.push_back(base::concat(facts->path, " ", facts->ranks, " ", facts->precision));
    tell("step", facts->steps, lines);
  }
  tell("only", reported.selection.only, lines);
  tell("skip", reported.selection.skip, lines);
  tell("at step", reported.selection.steps, lines);
  for (const trace::Kind kind : reported.selection.kinds) {
    lines.push_back(base::concat("of kind ", kind_name(kind)));
  }
  tell("followed", reported.followed_layouts, lines);
  for (const auto& [name, value] : reported.judged_by) lines.push_back(name + ": " + value);
  if (reported.part) {
    lines.push_back(base::concat("part ", reported.part->index, "/", reported.part->of));
  }
  for (const localize::LocalizedFinding& finding : reported.findings) tell(finding, lines);
  for (const answer::Suspect& suspect : reported.suspects) {
    lines.push_back(base::concat("suspect ", id_of(suspect.key), " ", suspect.used, " ",
                                 suspect.used_before, suspect.largest ? " after one" : ""));
  }
  tell("warning", reported.warnings, lines);
  for (const auto& [id, outcome] : reported.outcomes) lines.push_back(id + " is " + outcome);
  for (const auto& [name, kind] : reported.kinds) {
    lines.push_back(base::concat(name, ": ", kind.checked, " of ", kind.tensors));
  }
  tell_keys("bad", reported.bad, lines);
  tell_keys("frontier", reported.frontier, lines);
  return lines;
}

void check_as_read(const CompareReport& report) {
  const Lines in_memory = told(as_reported(report, "it"));
  const Lines read = told(parse_reported(json_text(report), "it"));
  CHECK(in_memory.size() == read.size());
  const auto [one, other] =
      std::mismatch(in_memory.begin(), in_memory.end(), read.begin(), read.end());
  if (one == in_memory.end() || other == read.end()) return;
  CHECK(*one == *other);
}

// A group of twenty, of which a report has sixteen in full; what is missing; and a setting.
CompareReport of_every_kind() {
  CompareReport report = test::many_findings(20);
  for (std::size_t i = 0; i < 3; ++i) {
    report.results.push_back(
        test::unmeasured(base::concat("gone", i), Outcome::kMissing, "the candidate lacks it"));
  }
  for (const Outcome outcome : judge::kAllOutcomes) {
    report.results.push_back(test::unmeasured(base::concat("as_", outcome_name(outcome)), outcome,
                                              "some reason", trace::Kind::kMainGrad));
  }
  report.counts.clear();
  for (const auto& result : report.results) ++report.counts[result.outcome];
  comparison::ComparedFinding missing = test::finding_of(20);
  missing.members = {20, 21, 22};
  missing.one_sided_group = "gone (step 0)";
  report.findings.push_back(missing);
  report.findings[7].causes = {
      {"scaled",
       "tp",
       "twice the reference",
       0.25,
       {{"factor", 2.0}, {"times", std::string("2")}, {"count", std::uint64_t{7}}}}};
  report.findings[7].rejected = {{"transposed", 0.5}};
  report.findings[7].ranks = {1, 3};
  report.settings = {{0, "lr", "0.1", "0.2", {"fc.weight", "fc.bias"}, {2}}};
  report.suspects = {{report.results[1].key, 80, 2, report.results[0].key}};
  report.followed = {{"fc0", R"({"name":"fc0"})", 3}};
  report.layout_rules = "layouts.json";
  report.map_rules = "map.json";
  report.tolerance_file = "tolerance.json";
  report.selection = {{"fc*"}, {"head*"}, {trace::Kind::kOutput}, {0, 2}};
  report.common = true;
  report.why = "of a reason";
  report.besides = "of another";
  report.warnings = {"a \"quoted\" warning"};
  report.other_start = comparison::OtherStart{};
  report.other_start->differ = 2;
  report.other_start->of = 5;
  return report;
}

}  // namespace

TEST_CASE("a comparison is explained as its report would be") {
  check_as_read(test::report_of(answer::Verdict::kRight, {test::compared("fc", {3, 4}, {3, 4})}));
  check_as_read(test::diverged_report());
  check_as_read(of_every_kind());
  CompareReport part = test::diverged_report();
  part.part = comparison::PartOfWork{{2, 3}, false, {}, {}};
  check_as_read(part);
}

TEST_CASE("neighbours of a finding are as many as a report lists") {
  CompareReport report = test::many_findings(kMostNeighbours + 5);
  comparison::ComparedFinding& finding = report.findings.back();
  for (std::size_t i = 0; i + 1 < report.results.size(); ++i) finding.depends_on.push_back(i);
  finding.downstream = finding.depends_on;
  report.findings = {finding};
  check_as_read(report);
  const ReportedComparison reported = as_reported(report, "it");
  CHECK(reported.findings.front().depends_on.size() == kMostNeighbours);
  CHECK(reported.findings.front().downstream == kMostNeighbours + 4);
}

}  // namespace ttrace::report::comparison_as_reported_test
