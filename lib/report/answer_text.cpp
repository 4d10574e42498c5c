#include "report/answer_text.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <ostream>

#include "base/display_limits.h"
#include "base/text.h"
#include "localize/microbatch_mismatch.h"
#include "localize/other_start.h"
#include "localize/swapped_runs.h"
#include "report/coverage_clauses.h"
#include "report/headline.h"

namespace ttrace::report {
namespace {

using base::concat;
using base::printable;
using base::short_number;
using judge::Outcome;

// The short name of the type with this ε in which the pair is stored or was computed. TF32 and
// float16 have the same ε.
std::string_view precision_name(double epsilon, const comparison::Pair& pair) {
  const tensor::DType tf32 = tensor::DType::kTensorFloat32;
  if (epsilon == tensor::epsilon(tf32) &&
      (pair.reference->computed_in == tf32 || pair.candidate->computed_in == tf32)) {
    return dtype_short_name(tf32);
  }
  for (const tensor::DType dtype :
       {tensor::DType::kFloat64, tensor::DType::kFloat32, tensor::DType::kFloat16,
        tensor::DType::kBFloat16, tensor::DType::kFloat8E4M3, tensor::DType::kFloat8E5M2}) {
    if (tensor::epsilon(dtype) == epsilon) return dtype_short_name(dtype);
  }
  return "other";
}

// "f32 median 1.1e-06, widest 4.0e-06; bf16 ...". A match in bf16 proves less than one in f32.
std::string describe_sharpness(const comparison::CompareReport& report) {
  const std::vector<Sharpness> sharpness = sharpness_of(report);
  std::string text;
  for (const Sharpness& one : sharpness) {
    text += concat(text.empty() ? "" : "; ", sharpness.size() > 1 ? one.precision : "",
                   sharpness.size() > 1 ? " " : "", "median ", short_number(one.median),
                   ", widest ", short_number(one.widest));
  }
  return text.empty() ? "" : concat(" (allowed error: ", text, ")");
}

// "201 tensors agree", "180 of 201 tensors agree", "30 of 30 selected tensors agree (of 201)".
// With ", nothing unchecked" where no clause says otherwise.
std::string describe_agreement(const comparison::CompareReport& report,
                               const std::vector<Clause>& clauses) {
  const std::uint64_t agree = report.counts.at(Outcome::kMatch);
  const std::uint64_t total = report.results.size();
  const std::uint64_t selected = total - report.counts.at(Outcome::kSkippedByRule);
  const char* const verb = agree == 1 ? " agrees" : " agree";
  if (selected < total) {
    return concat(agree, " of ", selected, " selected ", selected == 1 ? "tensor" : "tensors", verb,
                  " (of ", total, ")");
  }
  if (agree < total) return concat(agree, " of ", base::plural(total, "tensor"), verb);
  const bool all = std::none_of(clauses.begin(), clauses.end(), [](const Clause& clause) {
    return clause.weight != Clause::Weight::kFact;
  });
  return concat(base::plural(agree, "tensor"), verb, all ? ", nothing unchecked" : "");
}

// Whether all values of the candidate equal those of the reference: as numbers, so that -0 is 0,
// any NaN is any other, and a boolean is true unless it is stored as 0.
bool all_equal(const comparison::CompareReport& report) {
  bool any = false;
  for (const comparison::TensorComparison& result : report.results) {
    if (!result.comparison) continue;
    const comparison::ComparedNumbers& comparison = *result.comparison;
    const bool equal = comparison.replay ? comparison.replay->reference_difference_norm == 0
                                         : comparison.measurement.total.unequal == 0;
    if (!equal) return false;
    any = true;
  }
  return any;
}

// How close the closest tensor came to its limit: in full, and without its name; or nothing.
std::vector<std::string> describe_closest(const comparison::CompareReport& report) {
  if (all_equal(report)) return {"all values equal"};
  const comparison::TensorComparison* closest = closest_to_limit(report);
  if (closest == nullptr) return {};
  const std::string used = concat("the closest to its limit used ",
                                  percent(comparison::used_share(*closest->comparison)));
  return {concat(used, " (", printable(to_string(closest->key)), ")"), used};
}

std::string describe_first(const comparison::CompareReport& report, const Listed& first,
                           const std::vector<FindingGroup>& groups) {
  if (first.setting) {
    const comparison::SettingDifference& setting = report.settings[*first.setting];
    return concat(setting.name, " of ", base::plural(setting.parameters.size(), "parameter"),
                  " · step ", setting.step, ", in which the optimizers differ");
  }
  const comparison::ComparedFinding& finding =
      report.findings[groups[first.group].findings.front()];
  const comparison::TensorComparison& result = report.results[finding.result];
  std::string name = finding.members.size() > 1 ? finding.one_sided_group : to_string(result.key);
  if (result.outcome == Outcome::kExtra) return name + ", which the candidate alone has";
  return finding.members.size() > 1 ? name + ", which is missing" : name;
}

std::string format_finding_count(const comparison::CompareReport& report, std::size_t groups) {
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

// "the layout of head is declared wrongly; behind it, the output of layers.0.down is ...".
std::string describe_slips(const comparison::CompareReport& report,
                           const std::vector<FindingGroup>& groups) {
  const std::size_t more = report.followed.size() - 1;
  const std::string slips =
      concat("the layout of ", report.followed.front().name,
             more > 0 ? concat(" and ", more, " more") : "", " is declared wrongly; ");
  const std::vector<Listed> list = listed(report, groups);
  const auto behind = std::find_if(list.begin(), list.end(), [&](const Listed& one) {
    if (one.setting) return true;
    const auto& causes = report.findings[groups[one.group].findings.front()].causes;
    return causes.empty() || causes.front().fits == nullptr;
  });
  if (behind == list.end()) return slips + "as it fits, all else agrees or follows";
  return concat(slips, "behind it, ", Headlines(report).of(*behind, groups));
}

// The sentence: what explains all findings at once, or else the first of them.
std::string describe_divergence(const comparison::CompareReport& report,
                                const std::vector<FindingGroup>& groups) {
  std::string text;
  if (report.swapped) text += base::render(localize::describe_swapped(*report.swapped)) + "; ";
  if (report.microbatches) text += localize::describe_mismatch(*report.microbatches) + "; ";
  if (report.other_start) {
    return printable(text + base::render(localize::describe_start(*report.other_start)));
  }
  if (!report.padding.empty()) {
    text += report.padding;
  } else if (!report.followed.empty()) {
    text += describe_slips(report, groups);
  } else {
    const std::vector<Listed> list = listed(report, groups);
    text +=
        list.empty() ? std::string("the runs differ") : Headlines(report).of(list.front(), groups);
  }
  return printable(text);
}

// " (and 2 other findings)", which is left out where the line is too long.
std::string describe_others(const comparison::CompareReport& report,
                            const std::vector<FindingGroup>& groups) {
  const std::size_t listed_ones = groups.size() + report.settings.size();
  if (report.other_start || listed_ones < 2) return "";
  return concat(" (and ", base::plural(listed_ones - 1, "other finding"), ")");
}

}  // namespace

const comparison::TensorComparison* closest_to_limit(const comparison::CompareReport& report) {
  const comparison::TensorComparison* closest = nullptr;
  for (const comparison::TensorComparison& result : report.results) {
    if (result.outcome != Outcome::kMatch || !result.comparison || result.exact) continue;
    // The bound of a replay is what rounding can do at most, and healthy updates come near to it.
    if (result.comparison->replay) continue;
    if (closest == nullptr ||
        comparison::used_share(*result.comparison) > comparison::used_share(*closest->comparison)) {
      closest = &result;
    }
  }
  return closest;
}

std::vector<Sharpness> sharpness_of(const comparison::CompareReport& report) {
  std::map<std::pair<double, std::string_view>, std::vector<double>, std::greater<>> allowed;
  for (const comparison::TensorComparison& result : report.results) {
    if (result.outcome != judge::Outcome::kMatch || !result.comparison || result.exact) continue;
    const comparison::ComparedNumbers& comparison = *result.comparison;
    const double norm = measure::reference_norm(comparison.measurement.total);
    const judge::Rule rule = comparison.tolerance.rule;
    if (comparison.replay || rule == judge::Rule::kExact || !(norm > 0)) continue;
    const double epsilon = comparison.tolerance.epsilon;
    allowed[{epsilon, precision_name(epsilon, result)}].push_back(
        comparison.tolerance.allowed_norm() / norm);
  }
  std::vector<Sharpness> found;
  for (auto& [precision, values] : allowed) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    found.push_back({precision.second, values.size(), *middle,
                     *std::max_element(values.begin(), values.end())});
  }
  return found;
}

std::string percent(double share) {
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), share >= 0.1 ? "%.0f %%" : "%.2g %%", 100 * share);
  return buffer.data();
}

std::string name_of(const answer::Cause& cause) {
  return concat(cause.name, cause.axis.empty() ? "" : " over ", cause.axis);
}

std::string describe_cause(const answer::Cause& cause) {
  return concat(name_of(cause), ": ", cause.evidence);
}

std::string execution_text(const answer::Environment& environment) {
  const std::string remarks =
      environment.remarks.empty() ? "" : concat(" (", environment.remarks, ")");
  return concat(environment.backend, " ", environment.instruction_set, ", ",
                base::plural(environment.threads, "thread"), remarks);
}

std::string describe_rejected(const std::vector<answer::RejectedCause>& rejected) {
  std::string text;
  for (std::size_t i = 0; i < rejected.size() && i < base::kShown.names; ++i) {
    text += concat(i > 0 ? ", " : "", rejected[i].name, " (leaves ",
                   base::short_number(rejected[i].unexplained), ")");
  }
  return text;
}

std::string describe_first_of(const comparison::CompareReport& report,
                              const std::vector<FindingGroup>& groups) {
  return printable(concat("first at ",
                          describe_first(report, listed(report, groups).front(), groups), " (",
                          format_finding_count(report, groups.size()), ")"));
}

std::string headline_text(const comparison::CompareReport& report,
                          const std::vector<FindingGroup>& groups) {
  const FirstLine line = first_line_of(report, groups);
  const std::string text = write_first_line(line, {}).text;
  return text.substr(std::string_view(line.verdict).size() + 2);
}

FirstLine first_line_of(const comparison::CompareReport& report,
                        const std::vector<FindingGroup>& groups) {
  FirstLine line;
  line.clauses = coverage_clauses(report);
  std::erase_if(line.clauses,
                [&report](const Clause& clause) { return clause.name == report.why_is_about; });
  switch (report.verdict) {
    case answer::Verdict::kRight:
      line.verdict = "MATCH";
      line.colour = "32";
      line.sentence = describe_agreement(report, line.clauses);
      line.aside = describe_sharpness(report);
      line.closing = describe_closest(report);
      break;
    case answer::Verdict::kWrong:
      line.verdict = "DIVERGED";
      line.colour = "31";
      line.sentence = describe_divergence(report, groups);
      line.aside = describe_others(report, groups);
      break;
    case answer::Verdict::kInconclusive:
      line.verdict = "INCONCLUSIVE";
      line.colour = "33";
      line.sentence = printable(report.why);
      break;
  }
  return line;
}

}  // namespace ttrace::report
