// Reports made by hand, for the writers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "comparison/result.h"
#include "judge/fallback_rule.h"
#include "measure/cpu/cpu_backend.h"
#include "support/memory_trace.h"

namespace ttrace::test {

// A result of two tensors of these values, judged with the outcome given.
inline comparison::TensorComparison compared(const std::string& name,
                                             const std::vector<double>& reference,
                                             const std::vector<double>& candidate,
                                             judge::Outcome outcome = judge::Outcome::kMatch,
                                             trace::Kind kind = trace::Kind::kOutput) {
  comparison::TensorComparison result;
  result.key = ttrace::test::make_key(name, kind);
  result.outcome = outcome;
  result.shape = {reference.size()};
  result.comparison.emplace();
  measure::Measurement& measurement = result.comparison->measurement;
  const tensor::Box box = tensor::whole(result.shape);
  measurement.total = measure::box_stats(box, reference, candidate);
  measurement.blocks = {{measure::RankBoxes{{box}, {0}, ""}, measurement.total}};
  const double norm = measure::reference_norm(measurement.total);
  result.comparison->tolerance = judge::fallback_tolerance(norm, 0x1p-23, reference.size(), 0, 0);
  result.comparison->tolerance.multiplier = 16;  // whatever the rule's own is
  result.comparison->tolerance.formula = "16·1.03^0·ε";
  return result;
}

inline comparison::TensorComparison unmeasured(const std::string& name, judge::Outcome outcome,
                                               std::string reason,
                                               trace::Kind kind = trace::Kind::kOutput) {
  comparison::TensorComparison result;
  result.key = ttrace::test::make_key(name, kind);
  result.outcome = outcome;
  result.reason = std::move(reason);
  result.shape = {4};
  return result;
}

inline comparison::CompareReport report_of(answer::Verdict verdict,
                                           std::vector<comparison::TensorComparison> results) {
  comparison::CompareReport report;
  report.verdict = verdict;
  report.reference = {"ref.h5", 1, {}, {0}, "fp32", "", {}};
  report.candidate = {"run/", 2, {{"pp", 1}, {"tp", 2}}, {0}, "bf16", "", {}};
  report.from_modules = true;
  report.environment = {"cpu", "x86-64", "", 2, 0.12, 1900000000, "0.1.0"};
  for (const judge::Outcome outcome : judge::kAllOutcomes) report.counts[outcome] = 0;
  for (const comparison::TensorComparison& result : results) ++report.counts[result.outcome];
  report.results = std::move(results);
  return report;
}

// The result at `index` as a finding, alone.
inline comparison::ComparedFinding finding_of(std::size_t index) {
  comparison::ComparedFinding finding;
  finding.result = index;
  finding.members = {index};
  finding.before = "input of the same module matches";
  return finding;
}

// Two tensors, the first of them wrong; the second follows from it.
inline comparison::CompareReport diverged_report() {
  comparison::CompareReport report = report_of(
      answer::Verdict::kWrong, {compared("fc", {3, 4}, {3, 4.5}, judge::Outcome::kDiverged),
                                compared("head", {1, 2}, {1, 2.5}, judge::Outcome::kDiverged)});
  comparison::ComparedFinding finding = finding_of(0);
  finding.class_name = "Linear";
  finding.called_at = "model.py:7";
  finding.where = "everywhere";
  finding.merged = "2 × [2] -> [2], replicas over tp";
  finding.downstream = {1};
  finding.causes = {{"scaled",
                     "tp",
                     "1.1 times the reference",
                     0.01,
                     {{"factor", 1.1}, {"times", std::string("11/10")}}}};
  report.results[0].comparison->measurement.largest_place = measure::ElementPlace{1, {1}};
  report.findings = {finding};
  report.downstream = 1;
  return report;
}

// `count` findings, nothing downstream.
inline comparison::CompareReport many_findings(std::size_t count) {
  std::vector<comparison::TensorComparison> results;
  for (std::size_t i = 0; i < count; ++i) {
    results.push_back(compared(base::concat("fc", i), {3, 4}, {3, 4.5}, judge::Outcome::kDiverged));
  }
  comparison::CompareReport report = report_of(answer::Verdict::kWrong, std::move(results));
  for (std::size_t i = 0; i < count; ++i) report.findings.push_back(finding_of(i));
  return report;
}

}  // namespace ttrace::test
