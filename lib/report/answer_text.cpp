#include "report/answer_text.h"

#include <array>
#include <cstdio>
#include <ostream>

#include "base/concat.h"
#include "base/number_text.h"
#include "report/sharpness.h"

namespace ttrace::report {
namespace {

using base::concat;
using base::printable;
using base::short_number;
using verdict::Outcome;

std::string bold(const std::string& text, const char* colour, const TextStyle& style) {
  return style.colour ? concat("\x1b[1;", colour, "m", text, "\x1b[0m") : text;
}

// "f32 median 1.1e-06, widest 4.0e-06; bf16 ...": a match in bf16 says less than one in f32.
std::string sharpness_words(const CompareReport& report) {
  const std::vector<Sharpness> sharpness = sharpness_of(report);
  std::string text;
  for (const Sharpness& one : sharpness) {
    text += concat(text.empty() ? "" : "; ", sharpness.size() > 1 ? one.precision : "",
                   sharpness.size() > 1 ? " " : "", "median ", short_number(one.median),
                   ", widest ", short_number(one.widest));
  }
  return text.empty() ? "" : concat(" (allowed error: ", text, ")");
}

std::string precision_words(const CompareReport& report) {
  const std::string& of_reference = report.reference.precision;
  const std::string& of_candidate = report.candidate.precision;
  if (!of_reference.empty() && !of_candidate.empty() && of_reference != of_candidate) {
    return concat("; the reference ran in ", of_reference, ", the candidate in ", of_candidate);
  }
  std::size_t tensors = 0;
  const Result* first = nullptr;
  for (const Result& result : report.results) {
    if (!result.candidate_dtype || !result.comparison) continue;
    if (first == nullptr) first = &result;
    ++tensors;
  }
  if (first == nullptr) return "";
  return concat("; the precisions of ", base::plural(tensors, "tensor"), " differ (",
                to_string(first->key), ": reference ", dtype_short_name(first->dtype),
                ", candidate ", dtype_short_name(*first->candidate_dtype), ")");
}

// No value of the candidate differs from the reference's.
bool all_equal(const CompareReport& report) {
  bool any = false;
  for (const Result& result : report.results) {
    if (!result.comparison) continue;
    const Comparison& comparison = *result.comparison;
    const bool equal = comparison.replay ? comparison.replay->reference_difference_norm == 0
                                         : comparison.measurement.total.unequal == 0;
    if (!equal) return false;
    any = true;
  }
  return any;
}

std::string closest_words(const CompareReport& report) {
  if (all_equal(report)) return "; all bits equal";
  const Result* closest = nullptr;
  for (const Result& result : report.results) {
    if (result.outcome != Outcome::kMatch || !result.comparison || result.exact) continue;
    // The last rounding of a replayed update reaches its bound in every large tensor.
    if (result.comparison->replay) continue;
    if (closest == nullptr || used_share(*result.comparison) > used_share(*closest->comparison)) {
      closest = &result;
    }
  }
  if (closest == nullptr) return "";
  return concat("; the closest to its limit used ", percent(used_share(*closest->comparison)), " (",
                to_string(closest->key), ")");
}

// What a comparison of what both sides have says nothing of.
std::string left_out_words(const CompareReport& report) {
  if (!report.left_out) return "";
  const LeftOut& left_out = *report.left_out;
  if (left_out.total() == 0) return "; no tensor is on one side only";
  return concat("; ", base::plural(left_out.total(), "tensor"),
                " that only one side has left out (", left_out.of_reference, " of the reference, ",
                left_out.of_candidate, " of the candidate)");
}

std::string first_words(const CompareReport& report, const Listed& first,
                        const std::vector<FindingGroup>& groups) {
  if (first.setting) {
    const SettingDifference& setting = report.settings[*first.setting];
    return concat(setting.name, " of ", base::plural(setting.parameters.size(), "parameter"),
                  " · step ", setting.step, ", which the optimizers were told differently");
  }
  const Finding& finding = report.findings[groups[first.group].findings.front()];
  const Result& result = report.results[finding.result];
  std::string name = finding.members.size() > 1 ? finding.one_sided_group : to_string(result.key);
  if (result.outcome == Outcome::kExtra) return name + ", which the candidate alone has";
  return finding.members.size() > 1 ? name + ", which is missing" : name;
}

std::string findings_words(const CompareReport& report, std::size_t groups) {
  const std::size_t findings = report.findings.size() + report.settings.size();
  const std::size_t listed = groups + report.settings.size();
  std::string text = base::plural(findings, "finding");
  if (listed < findings) text += concat(" in ", base::plural(listed, "group"));
  text += concat(", ", base::plural(report.downstream, "tensor"), " downstream");
  if (!report.suspects.empty()) {
    text += concat(", ", base::plural(report.suspects.size(), "second suspect"));
  }
  return text;
}

}  // namespace

std::string percent(double share) {
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), share >= 0.1 ? "%.0f %%" : "%.2g %%", 100 * share);
  return buffer.data();
}

void write_answer(const CompareReport& report, const std::vector<FindingGroup>& groups,
                  const TextStyle& style, std::ostream& out) {
  switch (report.verdict) {
    case Verdict::kMatch:
      out << bold("MATCH", "32", style) << "  "
          << base::plural(report.counts.at(Outcome::kMatch), "tensor")
          << (report.counts.at(Outcome::kMatch) == 1 ? " agrees" : " agree")
          << sharpness_words(report)
          << printable(
                 concat(closest_words(report), precision_words(report), left_out_words(report)))
          << "\n";
      break;
    case Verdict::kDiverged:
      out << bold("DIVERGED", "31", style) << "  first at "
          << printable(first_words(report, listed(report, groups).front(), groups)) << "        ("
          << findings_words(report, groups.size()) << ")"
          << printable(concat(precision_words(report), left_out_words(report))) << "\n";
      break;
    case Verdict::kInconclusive:
      out << bold("INCONCLUSIVE", "33", style) << "  "
          << printable(concat(report.why, left_out_words(report))) << "\n";
      break;
  }
}

}  // namespace ttrace::report
