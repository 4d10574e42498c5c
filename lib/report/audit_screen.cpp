// The sentences and the first screen of an audit.
#include "report/audit_screen.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "base/display_limits.h"
#include "base/text.h"
#include "localize/phase.h"
#include "localize/place.h"
#include "report/audit_text.h"
#include "report/finding_spot.h"
#include "report/headline.h"
#include "report/look_at.h"
#include "report/screen.h"
#include "report/terminal_text.h"

namespace ttrace::report {
namespace {

using audit::AuditCheck;
using audit::AuditedTensor;
using audit::AuditFinding;
using audit::AuditReport;
using base::concat;
using base::plural;
using base::short_number;

std::string describe_audited_where(const AuditReport& report, const AuditFinding& finding) {
  const trace::TensorKey& shown = report.tensors[finding.shown].key;
  std::string text = describe_spot(finding, shown, localize::place_of(shown, true, finding.axis()),
                                   finding.members.size() > 1);
  if (report.run.ranks < 2) return text;
  append_clause(text, finding.ranks.empty() ? "every rank"
                                            : describe_ranks_of(finding.ranks, report.run.ranks));
  return text;
}

std::string describe_audited_proof(const AuditedTensor& tensor) {
  const AuditCheck& check = *tensor.broken_check();
  std::string text = tensor.causes.empty() ? concat(check.operation, ": ", check.reason)
                                           : tensor.causes.front().evidence;
  if (std::isfinite(check.error)) {
    append_clause(text, concat("the error is ", short_number(check.error), ", its bound ",
                               short_number(check.bound)));
  }
  return text;
}

// "26 of 1142: 20 lack their input".
std::string describe_audit_unchecked(const AuditReport& report) {
  const audit::AuditCoverage& coverage = report.coverage;
  const std::uint64_t left = coverage.tensors - coverage.judged;
  if (left == 0) return concat("nothing of ", coverage.tensors);
  std::vector<std::pair<std::string, std::uint64_t>> reasons(coverage.not_judged.begin(),
                                                             coverage.not_judged.end());
  std::stable_sort(reasons.begin(), reasons.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text = concat(left, " of ", coverage.tensors);
  for (std::size_t i = 0; i < reasons.size() && i < base::kShown.remarks; ++i) {
    text += concat(i == 0 ? ": " : "; ", reasons[i].second, " ", cut_at_word(reasons[i].first, 60));
  }
  return text;
}

}  // namespace

std::string audit_headline(const AuditReport& report, const AuditFinding& finding) {
  const AuditedTensor& shown = report.tensors[finding.shown];
  AllOfKind all;
  for (const AuditedTensor& tensor : report.tensors) {
    if (tensor.key.kind == shown.key.kind && tensor.key.step == shown.key.step) {
      all.add(tensor.key);
    }
  }
  ToldFinding told;
  told.tensors.kind = shown.key.kind;
  told.tensors.step = shown.key.step;
  told.tensors.is_first_step =
      report.run.steps.empty() || shown.key.step == report.run.steps.front();
  std::vector<const answer::Cause*> causes;
  for (const std::size_t member : finding.members) {
    const AuditedTensor& tensor = report.tensors[member];
    if (tensor.key.kind != shown.key.kind || tensor.key.step != shown.key.step) continue;
    told.tensors.add(tensor.key);
    if (!tensor.causes.empty()) causes.push_back(&tensor.causes.front());
  }
  told.tensors.all = &all;
  std::optional<answer::Cause> cause;
  if (!finding.causes.empty()) cause = with_all_factors(finding.causes.front(), causes);
  told.cause = cause ? &*cause : nullptr;
  told.phase = localize::phase_of(shown.key);
  told.place = localize::place_of(shown.key, true, finding.axis());
  told.called_at = finding.called_at;
  told.outcome = "broken";
  told.reason = shown.broken_check()->reason;
  told.mesh = report.run.mesh;
  return sentence_of(told);
}

void write_audit_screen(const AuditReport& report, const std::string& first_line,
                        const TextStyle& style, std::ostream& out) {
  Screen screen(first_line, style);
  const bool broken = report.verdict == answer::Verdict::kWrong;
  if (broken) {
    const AuditFinding& first = report.findings.front();
    const AuditedTensor& shown = report.tensors[first.shown];
    screen.add("where", describe_audited_where(report, first), Screen::Keep::kAlways, 260);
    screen.add("proof", describe_audited_proof(shown), Screen::Keep::kAlways, 260);
    screen.add("first at", describe_first_broken(report));
    screen.add("expected", shown.broken_check()->expected, Screen::Keep::kLong);
    screen.add("look at", look_at(first, shown.key, report.run));
    for (std::size_t i = 1; i < report.findings.size(); ++i) {
      if (i > base::kShown.also) {
        screen.add("also", concat("and ", report.findings.size() - i, " more findings (--all)"),
                   Screen::Keep::kShort);
        break;
      }
      screen.add("also", concat(i + 1, "  ", audit_headline(report, report.findings[i])),
                 i == 1 ? Screen::Keep::kLong : Screen::Keep::kShort, 85);
    }
  } else if (report.verdict == answer::Verdict::kRight &&
             first_line.find(" of its bound") == std::string::npos) {
    screen.add("worst", describe_audit_sharpness(report).substr(6), Screen::Keep::kLong);
  }
  const bool healthy = report.verdict == answer::Verdict::kRight;
  if (!report.coverage.record_next.empty()) {
    screen.add("record", concat(report.coverage.record_next, " records what is lacking"),
               Screen::Keep::kLong);
  }
  screen.add("run",
             concat(report.run.path, " (", plural(report.run.ranks, "rank"), "); ",
                    report.specification.empty() ? std::string("no specification")
                                                 : concat("specification ", report.specification)),
             Screen::Keep::kShort);
  if (report.part) {
    screen.add("part",
               "the tensors of other parts are not in it; `ttrace report merge` joins the "
               "--json files of all");
  }
  screen.add("not checked", concat(describe_audit_unchecked(report), "      more  ",
                                   describe_more(style, broken)));
  screen.write(out, healthy ? kScreenLinesOfMatch : kScreenLines);
}

}  // namespace ttrace::report
