// The first screen of `ttrace localize`.
#include "report/localize_screen.h"

#include <algorithm>

#include "base/display_limits.h"
#include "base/text.h"
#include "report/finding_spot.h"
#include "report/localize_text.h"
#include "report/look_at.h"
#include "report/screen.h"
#include "report/terminal_text.h"

namespace ttrace::report {
namespace {

using base::concat;
using base::plural;
using localize::LocalizedFinding;
using localize::LocalizeReport;

std::string describe_localized_where(const LocalizeReport& report,
                                     const LocalizedFinding& finding) {
  if (!finding.shown) return "optimizer";
  std::string text =
      describe_spot(finding, *finding.shown, finding.place, finding.members.size() > 1);
  append_clause(text, describe_ranks_of(finding.ranks, report.comparison.candidate.ranks));
  if (!finding.upstream.empty()) text += concat("; upstream ", finding.upstream);
  return text;
}

void add_localized(const LocalizeReport& report, Screen& screen) {
  const LocalizedFinding& first = report.findings.front();
  screen.add("where", describe_localized_where(report, first), Screen::Keep::kAlways, 260);
  screen.add("proof", first.causes.empty() ? first.where : first.causes.front().evidence);
  screen.add("local", first.summary, Screen::Keep::kAlways, 260);
  if (first.shown) {
    screen.add("look at", look_at(first, *first.shown, report.comparison.candidate));
  }
  for (std::size_t i = 1; i < report.findings.size(); ++i) {
    if (i > base::kShown.also) {
      screen.add("also", concat("and ", report.findings.size() - i, " more findings (--all)"),
                 Screen::Keep::kShort);
      break;
    }
    screen.add("also", concat(i + 1, "  ", report.findings[i].headline),
               i == 1 ? Screen::Keep::kLong : Screen::Keep::kShort, 85);
  }
  screen.add("next", first.next, Screen::Keep::kLong);
}

void add_modules(const LocalizeReport& report, Screen& screen) {
  std::size_t at_fault = 0;
  for (const localize::IsolatedModule& module : report.isolated) {
    if (module.verdict != answer::Verdict::kWrong) continue;
    if (++at_fault > base::kShown.also) continue;
    screen.add("at fault", concat(module.module, module.class_name.empty() ? "" : "  ",
                                  module.class_name, ", first ", to_string(module.wrong.front())));
  }
  if (at_fault > base::kShown.also) {
    screen.add("at fault", concat("and ", at_fault - base::kShown.also, " more (--all)"));
  }
  std::size_t broken = 0;
  for (const localize::LayerSummary& layer : report.layers) {
    if (layer.broken.empty()) continue;
    if (++broken > base::kShown.also) continue;
    screen.add("broken", concat(layer.module, ": ", to_string(layer.broken.front().key)));
  }
  if (broken > base::kShown.also) {
    screen.add("broken", concat("and ", broken - base::kShown.also, " more modules (--all)"));
  }
  if (report.code && !report.code->differences.empty()) {
    const specification::CodeDifference& first = report.code->differences.front();
    screen.add("code", concat(first.what, first.called_at.empty() ? "" : ", ", first.called_at));
  }
  if (report.written_plan) {
    screen.add("plan", concat(report.written_plan->file, " isolates ",
                              plural(report.written_plan->plan.modules.size(), "module"),
                              ": run both again with TTRACE_PLAN=", report.written_plan->file,
                              " into other traces, then ttrace localize on these"));
  }
}

}  // namespace

void write_localize_screen(const LocalizeReport& report, const std::string& first_line,
                           const TextStyle& style, std::ostream& out) {
  Screen screen(first_line, style);
  const bool findings = !report.findings.empty();
  if (findings && report.comparison.other_start.empty()) add_localized(report, screen);
  add_modules(report, screen);
  if (report.part) {
    screen.add("part",
               "nothing is explained in it; `ttrace report merge` joins the --json files of all "
               "parts, and explains");
  }
  const bool nothing = report.verdict() == answer::Verdict::kRight;
  const std::string judged =
      report.specification.empty()
          ? std::string("no specification (--specification judges modules by their inputs)")
          : concat("specification ", report.specification);
  screen.add("runs",
             concat(report.comparison.reference.path, " and ", report.comparison.candidate.path,
                    "; ", judged),
             Screen::Keep::kShort);
  if (!nothing) screen.add("more", describe_more(style, findings));
  screen.write(out, nothing ? kScreenLinesOfMatch : kScreenLines);
}

}  // namespace ttrace::report
