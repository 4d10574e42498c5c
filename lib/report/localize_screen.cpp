// The first screen of `ttrace localize`.
#include "report/localize_screen.h"

#include <algorithm>

#include "base/display_limits.h"
#include "base/text.h"
#include "layout/mesh.h"
#include "localize/phase.h"
#include "localize/place.h"
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
  const localize::ReportedFinding& reported = finding.reported;
  if (!reported.shown) return "optimizer";
  std::string text(localize::describe_phase(finding.phase));
  const bool in_module = reported.place.kind == localize::PlaceKind::kModule;
  if (reported.place.kind == localize::PlaceKind::kBetween) {
    text += concat("; ", localize::describe_place(reported.place, reported.called_at));
  } else if (in_module && reported.members.size() < 2) {
    text += concat("; ", finding.module, reported.class_name.empty() ? "" : " (",
                   reported.class_name, reported.class_name.empty() ? "" : ")",
                   reported.called_at.empty() ? "" : ", called in ", reported.called_at);
  }
  const std::size_t ranks = reported.ranks.size();
  if (report.comparison.candidate.ranks > 1 && ranks > 0) {
    text += concat("; ", ranks == report.comparison.candidate.ranks
                             ? std::string("every rank")
                             : layout::describe_ranks(reported.ranks));
  }
  if (!finding.upstream.empty()) text += concat("; upstream ", finding.upstream);
  return text;
}

void add_localized(const LocalizeReport& report, Screen& screen) {
  const LocalizedFinding& first = report.findings.front();
  screen.add("where", describe_localized_where(report, first), Screen::Keep::kAlways, 260);
  const std::vector<comparison::Cause>& causes = first.reported.causes;
  screen.add("proof", causes.empty() ? first.reported.where : causes.front().evidence);
  screen.add("local", first.summary, Screen::Keep::kAlways, 260);
  if (!causes.empty() && first.reported.shown) {
    screen.add("look at", look_at({causes.front().name, first.phase, causes.front().axis,
                                   first.reported.shown->name, &report.comparison.candidate.mesh}));
  }
  for (std::size_t i = 1; i < report.findings.size(); ++i) {
    if (i > base::kShown.also) {
      screen.add("also", concat("and ", report.findings.size() - i, " more findings (--all)"),
                 Screen::Keep::kShort);
      break;
    }
    screen.add("also", concat(i + 1, "  ", sentence_of(report.findings[i])),
               i == 1 ? Screen::Keep::kLong : Screen::Keep::kShort, 85);
  }
  screen.add("next", first.next, Screen::Keep::kLong);
}

void add_modules(const LocalizeReport& report, Screen& screen) {
  std::size_t at_fault = 0;
  for (const localize::IsolatedModule& module : report.isolated) {
    if (module.verdict != localize::IsolatedVerdict::kAtFault) continue;
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

std::string sentence_of(const LocalizedFinding& finding) {
  const localize::ReportedFinding& reported = finding.reported;
  return reported.headline.empty() ? concat("first wrong is ", reported.title) : reported.headline;
}

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
  const bool nothing = report.exit_code() == 0;
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
