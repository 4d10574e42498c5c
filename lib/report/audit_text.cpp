#include "report/audit_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include "base/functions.h"
#include "base/text.h"
#include "layout/mesh.h"
#include "localize/phase.h"
#include "report/answer_text.h"
#include "report/audit_coverage_text.h"
#include "report/audit_report.h"
#include "report/audit_screen.h"
#include "report/place_words.h"
#include "report/terminal_text.h"
#include "report/text_report.h"
#include "specification/describe.h"

namespace ttrace::report {
namespace {

using audit::AuditCheck;
using audit::AuditedTensor;
using audit::AuditOutcome;
using audit::AuditReport;
using base::concat;
using base::plural;
using base::printable;
using base::short_number;

constexpr std::size_t kAuditFindingsInFull = 3;
constexpr std::size_t kAuditFindingsInLines = 12;
constexpr std::size_t kAuditReasonsInLines = 4;
constexpr std::size_t kUnjudgedInLine = 5;
constexpr std::size_t kIndent = 11;

// The first line and what people read in a table of runs: longer lines are cut there.
constexpr std::size_t kLongestAnswer = 200;

std::string describe_gradient_sharpness(const AuditReport& report) {
  if (!report.sharpness.gradient) return "";
  std::array<char, 32> factor{};
  const double bound = *report.sharpness.gradient;
  // As many digits as tell the factor from 1.
  const int digits =
      bound > 0 ? std::clamp(static_cast<int>(std::ceil(-base::decimal_logarithm(bound))) + 1, 2, 9)
                : 9;
  std::snprintf(factor.data(), factor.size(), "%.*f", digits, 1 + bound);
  return concat("; a factor of ", factor.data(), " in 9 of 10 gradients would show");
}

// "part 2 of 4: ", or nothing.
std::string part_of(const AuditReport& report) {
  if (!report.part) return "";
  return concat("part ", report.part->number.index, " of ", report.part->number.of, ": ");
}

std::string describe_holding(const AuditReport& report) {
  const std::vector<std::string> unchecked = describe_unchecked(report);
  std::string line = concat(part_of(report), describe_coverage(report));
  for (std::size_t i = 0; i < unchecked.size(); ++i) {
    constexpr std::size_t kRest = 20;  // "HOLDS  " and ", and 5 more"
    if (i > 0 && line.size() + unchecked[i].size() + kRest > kLongestAnswer) {
      line += concat(", and ", unchecked.size() - i, " more");
      break;
    }
    line += concat("; ", unchecked[i]);
  }
  const std::string sharpness = describe_audit_sharpness(report);
  const bool fits = line.size() + sharpness.size() + 9 <= kLongestAnswer;
  return fits ? concat(line, "; ", sharpness) : line;
}

std::string describe_broken(const AuditReport& report) {
  std::string line = concat(part_of(report), audit_headline(report, report.findings.front()));
  const std::size_t others = report.findings.size() - 1;
  const std::string aside = concat(" (and ", plural(others, "other finding"), ")");
  if (others > 0 && line.size() + aside.size() + 8 <= kLongestAnswer) line += aside;
  return line;
}

class AuditLines {
 public:
  AuditLines(const TextStyle& style, std::ostream& out) : style_(style), out_(out) {}

  void write(const std::string& label, const std::string& text) {
    std::string padded = concat("     ", label);
    padded.resize(std::max(padded.size() + 1, kIndent + 3), ' ');
    out_ << padded << wrapped(printable(text), style_.width, padded.size()) << "\n";
  }

 private:
  const TextStyle& style_;
  std::ostream& out_;
};

std::string describe_check_error(const AuditedTensor& tensor, const AuditCheck& check) {
  std::string text = short_number(check.error);
  const double epsilon = tensor::is_floating(tensor.dtype) ? tensor::epsilon(tensor.dtype) : 0;
  if (epsilon > 0) text += concat(" = ", short_number(check.error / epsilon), " ε");
  text += concat(", bound ", short_number(check.bound));
  if (epsilon > 0) text += concat(" = ", short_number(check.bound / epsilon), " ε");
  if (check.by_probes) text += ", by probes";
  return text;
}

void write_audit_finding(const AuditReport& report, std::size_t f, const TextStyle& style,
                         std::ostream& out) {
  const audit::AuditFinding& finding = report.findings[f];
  const AuditedTensor& tensor = report.tensors[finding.shown];
  const AuditCheck& check = *tensor.broken_check();
  out << "\n  " << f + 1 << "  " << printable(finding.title) << "   "
      << tensor::to_string(tensor.shape) << " " << dtype_short_name(tensor.dtype) << "   "
      << describe_phase(localize::phase_of(tensor.key)) << "\n";
  AuditLines lines(style, out);
  if (finding.members.size() > 1) lines.write("shown", to_string(tensor.key));
  if (!check.expected.empty()) lines.write("expected", check.expected);
  lines.write("broken", concat(check.operation, ": ", check.reason));
  if (std::isfinite(check.error)) lines.write("error", describe_check_error(tensor, check));
  if (!check.rows.empty()) lines.write("rows", check.rows);
  if (!check.ranks.empty()) lines.write("ranks", layout::describe_ranks(check.ranks));
  for (const answer::Cause& cause : finding.causes) lines.write("cause", describe_cause(cause));
  const std::string rejected = describe_rejected(finding.rejected);
  if (!rejected.empty()) lines.write("not", rejected);
  std::string holds;
  for (const AuditCheck& other : tensor.checks) {
    if (other.result != audit::CheckResult::kConsistent) continue;
    holds += concat(holds.empty() ? "" : ", ", other.operation);
  }
  if (!holds.empty()) lines.write("holds", holds);
  lines.write("place", describe_place(localize::place_of(tensor.key, true, finding.axis()),
                                      finding.called_at));
  if (!finding.class_name.empty() || !finding.called_at.empty()) {
    lines.write("code", concat(finding.class_name, finding.called_at.empty() ? "" : ", called in ",
                               finding.called_at));
  }
}

void write_audit_findings(const AuditReport& report, const TextStyle& style, std::ostream& out) {
  const std::size_t in_full =
      std::min(report.findings.size(), style.all ? report.findings.size() : kAuditFindingsInFull);
  for (std::size_t f = 0; f < in_full; ++f) write_audit_finding(report, f, style, out);
  if (report.findings.size() > in_full) out << "\n";
  const std::size_t stop = std::min(report.findings.size(), in_full + kAuditFindingsInLines);
  for (std::size_t f = in_full; f < stop; ++f) {
    const AuditedTensor& tensor = report.tensors[report.findings[f].shown];
    out << "  " << f + 1 << "  " << printable(report.findings[f].title) << ": "
        << printable(tensor.broken_check()->reason) << "\n";
  }
  if (stop < report.findings.size()) {
    out << "  and " << report.findings.size() - stop << " more (--all)\n";
  }
}

void write_audit_not_judged(const AuditReport& report, const TextStyle& style, std::ostream& out) {
  using Reason = std::pair<std::string, std::uint64_t>;
  std::vector<Reason> reasons(report.coverage.not_judged.begin(), report.coverage.not_judged.end());
  std::stable_sort(reasons.begin(), reasons.end(),
                   [](const Reason& a, const Reason& b) { return a.second > b.second; });
  const std::size_t most = style.all ? reasons.size() : kAuditReasonsInLines;
  for (std::size_t i = 0; i < reasons.size() && i < most; ++i) {
    out << folded(concat("  not judged: ", plural(reasons[i].second, "tensor"), ": ",
                         printable(reasons[i].first)),
                  style.width)
        << "\n";
  }
  if (reasons.size() > most) {
    out << "  and for " << reasons.size() - most << " more reasons (--all)\n";
  }
  if (!report.coverage.record_next.empty()) {
    out << folded(
               concat("  what they lack is recorded with ", printable(report.coverage.record_next)),
               style.width)
        << "\n";
  }
}

void write_unjudged_gradients(const AuditReport& report, const TextStyle& style,
                              std::ostream& out) {
  if (!report.coverage.step || report.coverage.step->unjudged_gradients.empty()) return;
  const audit::StepCoverage& step = *report.coverage.step;
  const std::size_t most = style.all ? step.unjudged_gradients.size() : kUnjudgedInLine;
  out << folded(concat("  ", describe_unjudged_gradients(step), ": ",
                       printable(specification::list_some(step.unjudged_gradients, most, ", "))),
                style.width)
      << "\n";
}

void write_every_audited(const AuditReport& report, std::ostream& out) {
  out << "\n  outcome              error      bound      used    tensor\n";
  for (const AuditedTensor& tensor : report.tensors) {
    const AuditCheck* shown = tensor.broken_check();
    for (const AuditCheck& check : tensor.checks) {
      if (shown == nullptr && check.bound > 0) shown = &check;
    }
    std::array<char, 96> row{};
    const bool numbers = shown != nullptr;
    std::snprintf(row.data(), row.size(), "  %-20s %-10s %-10s %-7s",
                  std::string(audit_outcome_name(tensor.outcome)).c_str(),
                  numbers ? short_number(shown->error).c_str() : "-",
                  numbers ? short_number(shown->bound).c_str() : "-",
                  numbers && std::isfinite(shown->share()) ? percent(shown->share()).c_str() : "-");
    out << row.data() << " " << printable(to_string(tensor.key));
    if (!tensor.reason.empty()) out << "  (" << printable(tensor.reason) << ")";
    out << "\n";
  }
}

std::string describe_run(const answer::TraceFacts& run) {
  std::string mesh;
  for (const trace::MeshAxis& axis : run.mesh) {
    mesh += concat(mesh.empty() ? "" : " × ", axis.name, " ", axis.size);
  }
  return concat(run.path, " (", plural(run.ranks, "rank"), mesh.empty() ? "" : ": ", mesh,
                run.precision.empty() ? "" : ", ", run.precision, ")");
}

// "lr 0.001 of 16 parameters, as the run recorded it".
std::string describe_setting(const audit::GivenSetting& setting) {
  std::vector<std::string> values;
  for (const double value : setting.values) values.push_back(short_number(value));
  return concat(printable(setting.name), " ",
                specification::list_some(values, kUnjudgedInLine, ", "), " of ",
                plural(setting.parameters, "parameter"),
                ", as the run recorded it: updates are judged by it, and nothing judges it");
}

void write_audit_footer(const AuditReport& report, const TextStyle& style, std::ostream& out) {
  std::uint64_t given = 0;
  std::uint64_t broken = 0;
  for (const AuditedTensor& tensor : report.tensors) {
    given += tensor.outcome == AuditOutcome::kGiven ? 1 : 0;
    broken += tensor.outcome == AuditOutcome::kBroken ? 1 : 0;
  }
  const audit::AuditCoverage& coverage = report.coverage;
  out << "\n  " << plural(report.tensors.size(), "tensor") << ": " << coverage.judged - broken
      << " hold, " << broken << " broken"
      << (report.downstream > 0 ? concat(" (", report.downstream, " downstream)") : "") << ", "
      << coverage.tensors - coverage.judged - coverage.lacking - coverage.below_bound
      << " not judged, "
      << (coverage.overflowed > 0 ? concat(coverage.overflowed, " overflowed, ") : "") << given
      << " given"
      << (coverage.below_bound > 0 ? concat(", ", coverage.below_bound, " below their bound") : "")
      << (coverage.zero_within_rounding > 0
              ? concat(", ", coverage.zero_within_rounding, " zero within rounding")
              : "")
      << (coverage.lacking > 0 ? concat("; the trace lacks ", coverage.lacking, " of the step")
                               : "")
      << "\n";
  write_audit_not_judged(report, style, out);
  write_unjudged_gradients(report, style, out);
  for (const audit::GivenSetting& setting : report.given_settings) {
    out << folded(concat("  taken as given: ", describe_setting(setting)), style.width) << "\n";
  }
  const answer::Environment& environment = report.environment;
  std::array<char, 32> seconds{};
  std::snprintf(seconds.data(), seconds.size(), "%.2f", environment.seconds);
  out << folded(concat("  ", printable(describe_run(report.run)), " · ",
                       report.specification.empty()
                           ? std::string("no specification")
                           : concat("specification ", printable(report.specification)),
                       " · ", execution_text(environment), " · ", seconds.data(), " s"),
                style.width)
      << "\n";
}

}  // namespace

std::string describe_first_broken(const AuditReport& report) {
  const AuditedTensor& first = report.tensors[report.findings.front().shown];
  return concat(to_string(first.key), ": ", first.broken_check()->reason, " (",
                plural(report.findings.size(), "finding"),
                report.downstream > 0
                    ? concat(", ", plural(report.downstream, "tensor"), " downstream")
                    : std::string(),
                ")");
}

std::string describe_audit_sharpness(const AuditReport& report) {
  return concat("worst ", short_number(report.sharpness.worst_share), " of its bound",
                describe_gradient_sharpness(report));
}

FirstLine audit_answer(const AuditReport& report) {
  switch (report.verdict) {
    case answer::Verdict::kRight:
      return {"HOLDS", "32", describe_holding(report)};
    case answer::Verdict::kInconclusive:
      return {"INCONCLUSIVE", "33",
              concat(report.interrupted ? "" : "nothing is broken, but ", part_of(report),
                     printable(report.why))};
    case answer::Verdict::kWrong:
      break;
  }
  return {"BROKEN", "31", describe_broken(report)};
}

void write_audit(const AuditReport& report, const TextStyle& style, std::ostream& out) {
  const FirstLine answer = audit_answer(report);
  const std::string first =
      concat(bold(answer.verdict, answer.colour, style), "  ", answer.sentence);
  if (!style.all) return write_audit_screen(report, first, style, out);
  out << folded(first, style.width) << "\n";
  if (answer.sentence.find(" of its bound") == std::string::npos &&
      report.verdict == answer::Verdict::kRight) {
    out << folded(concat("  ", describe_audit_sharpness(report)), style.width) << "\n";
  }
  if (report.verdict == answer::Verdict::kWrong) {
    out << folded(concat("\n  first at ", printable(describe_first_broken(report))), style.width)
        << "\n";
  }
  write_audit_findings(report, style, out);
  if (style.all) write_every_audited(report, out);
  write_audit_footer(report, style, out);
}

}  // namespace ttrace::report
