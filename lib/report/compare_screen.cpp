// The first screen of a comparison.
#include "report/compare_screen.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/display_limits.h"
#include "base/text.h"
#include "comparison/coverage.h"
#include "localize/microbatch_mismatch.h"
#include "localize/phase.h"
#include "localize/place.h"
#include "report/answer_text.h"
#include "report/coverage_clauses.h"
#include "report/depth.h"
#include "report/finding_spot.h"
#include "report/headline.h"
#include "report/look_at.h"
#include "report/notes_text.h"
#include "report/place_words.h"
#include "report/screen.h"
#include "report/terminal_text.h"

namespace ttrace::report {
namespace {

using base::concat;
using comparison::CompareReport;
using comparison::TensorComparison;
using judge::Outcome;

std::string describe_who(const CompareReport& report, const FindingGroup& group) {
  return describe_ranks_of(ranks_of(report, group), report.candidate.ranks);
}

std::string describe_where(const CompareReport& report, const FindingGroup& group) {
  const comparison::ComparedFinding& shown = report.findings[group.shown];
  const TensorComparison& result = report.results[shown.result];
  const bool missing_together = shown.members.size() > 1;
  std::string text = describe_spot(
      shown, result.key, missing_together ? localize::Place() : localize::place_of(report, shown),
      missing_together || group.findings.size() > 1);
  append_clause(text, describe_who(report, group));
  append_clause(text, describe_right_before(report, result.key.step, result.key.kind));
  return text;
}

// "103 % of its norm, 1.7e6 times what is allowed".
std::string describe_distance(const TensorComparison& result) {
  if (!result.comparison || result.exact) return result.reason;
  const std::uint64_t not_finite = result.comparison->measurement.total.nonfinite_different;
  if (not_finite > 0) {
    return concat(base::plural(not_finite, "value"), " NaN or infinite on one side alone");
  }
  const double error = comparison::told_error(result);
  const double used = comparison::told_share(result);
  constexpr double kPercent = 0.01;
  std::string text = concat("the error is ", error >= kPercent && error < 100
                                                 ? percent(error) + " of the norm"
                                                 : base::short_number(error) + " of the norm");
  if (std::isfinite(used) && used > 1) {
    text += concat(", ", base::short_number(used), " times what is allowed");
  }
  return text;
}

std::string describe_proof(const CompareReport& report, const FindingGroup& group) {
  const comparison::ComparedFinding& shown = report.findings[group.shown];
  const TensorComparison& result = report.results[shown.result];
  if (shown.members.size() > 1) return *result.note;
  std::string text;
  if (!shown.causes.empty()) {
    append_clause(text, shown.causes.front().evidence);
  } else if (result.outcome == Outcome::kIncomparable) {
    append_clause(text, shown.merged);
  } else {
    append_clause(text, shown.where);
  }
  // What is within its tolerance as a whole is wrong for what the cause says.
  const bool beyond = result.comparison && comparison::used_share(*result.comparison) > 1;
  if (beyond || (result.exact && result.comparison)) append_clause(text, describe_distance(result));
  if (group.findings.size() > 1 && !text.empty()) text += concat(" (", result.key.name, ")");
  return text;
}

// "nothing of 759", "26 of 759: 12 below the noise floor; 14 not judged".
std::string describe_compared_unchecked(const CompareReport& report) {
  const comparison::Coverage coverage = comparison::coverage_of(report);
  std::string text;
  std::uint64_t unchecked = 0;
  for (const Clause& clause : coverage_clauses(report)) {
    if (clause.weight != Clause::Weight::kUnchecked) continue;
    unchecked += clause.tensors;
    append_clause(text,
                  base::render({clause.in_short.empty() ? clause.message.text : clause.in_short,
                                clause.message.values}));
  }
  const std::string of = concat(" of ", coverage.selected);
  std::string said = unchecked == 0 ? concat("nothing", of) : concat(unchecked, of, ": ", text);
  if (coverage.selected < coverage.tensors) {
    said += concat("; ", coverage.tensors - coverage.selected, " of ", coverage.tensors,
                   " not selected");
  }
  return said;
}

std::string describe_runs(const CompareReport& report) {
  const auto one = [](const answer::TraceFacts& facts) {
    return concat(facts.path, " (", base::plural(facts.ranks, "rank"), ")");
  };
  const std::string by = report.noise_runs.empty()
                             ? std::string("no noise run (--noise RUN makes it sharper)")
                             : base::plural(report.noise_runs.size(), "noise run");
  return concat(one(report.reference), " and ", one(report.candidate), "; ", by);
}

// One clause a step: the first that is wrong, and how it goes on.
std::string describe_steps(const CompareReport& report) {
  std::map<std::uint64_t, double> worst;
  std::set<std::uint64_t> unsettled;  // some update is off, and was not judged
  for (const TensorComparison& result : report.results) {
    if (result.outcome == Outcome::kNotJudged && result.spread) unsettled.insert(result.key.step);
    double& used = worst.emplace(result.key.step, 0).first->second;
    if (!judge::is_bad(result.outcome)) continue;
    const bool has_number = result.comparison && result.outcome == Outcome::kDiverged;
    used = std::max({used, 1.0, has_number ? comparison::used_share(*result.comparison) : 1.0});
  }
  if (worst.size() < 2) return "";
  constexpr double kGrows = 2;
  std::string text;
  std::size_t said = 0;
  double before = 0;
  for (const auto& [step, used] : worst) {
    if (said++ == base::kShown.steps) {
      text += concat(" · and ", worst.size() - base::kShown.steps, " more");
      break;
    }
    const char* how = used == 0 && unsettled.contains(step) ? "right but for updates not judged"
                      : used == 0                           ? "right"
                      : before == 0                         ? "first wrong"
                      : used > kGrows * before              ? "growing"
                      : before > kGrows * used              ? "shrinking"
                                                            : "steady";
    text += concat(text.empty() ? "" : " · ", step, " ", how);
    if (used > 1 && std::isfinite(used)) text += concat(" (", base::short_number(used), " ×)");
    before = used;
  }
  return text;
}

void add_group(const CompareReport& report, const FindingGroup& group, Screen& screen) {
  const comparison::ComparedFinding& shown = report.findings[group.shown];
  const TensorComparison& result = report.results[shown.result];
  screen.add("where", describe_where(report, group), Screen::Keep::kAlways, 260);
  screen.add("proof", describe_proof(report, group), Screen::Keep::kAlways, 260);
  screen.add("look at", look_at(shown, result.key, report.candidate));
  if (shown.causes.empty() && !shown.record_next.empty()) {
    screen.add("record", concat(shown.record_next, " on both runs shows the layer around it"),
               Screen::Keep::kLong);
  }
}

// What differs before the first step, where that explains everything.
void add_start(const CompareReport& report, Screen& screen) {
  const comparison::OtherStart& start = *report.other_start;
  const bool weights = start.what == comparison::OtherStart::What::kWeights;
  AlikeTensors differing;
  AllOfKind all;
  differing.kind = weights ? trace::Kind::kParam : trace::Kind::kInput;
  differing.step = start.step;
  differing.all = &all;
  for (const comparison::ComparedFinding& finding : report.findings) {
    const trace::TensorKey& key = report.results[finding.result].key;
    const localize::Phase phase = localize::phase_of(key);
    const bool counts =
        weights ? key.kind == trace::Kind::kParam : phase == localize::Phase::kInput;
    if (counts && key.step == start.step) differing.add(key);
  }
  for (const TensorComparison& result : report.results) {
    const trace::TensorKey& key = result.key;
    if (key.kind != differing.kind || key.step != start.step) continue;
    if (weights || localize::phase_of(key) == localize::Phase::kInput) all.add(key);
  }
  if (differing.names.empty()) return;
  screen.add("where",
             concat(describe_phase(weights ? localize::Phase::kParameter : localize::Phase::kInput),
                    "; ", describe_subject(differing)),
             Screen::Keep::kAlways, 260);
  if (start.what == comparison::OtherStart::What::kData && report.candidate.ranks > 1) {
    screen.add(
        "look at",
        "what a rank draws its batch by: the reference takes the micro-batches of all ranks, "
        "n for each, and rank d those from d·n on; seed or sample by that number, not by the "
        "turn on the rank",
        Screen::Keep::kLong, 260);
  }
}

void add_setting(const comparison::SettingDifference& setting, const CompareReport& report,
                 Screen& screen) {
  std::size_t wrong = 0;
  for (const std::size_t i : setting.updates) {
    wrong += judge::is_bad(report.results[i].outcome) ? 1 : 0;
  }
  screen.add("where", concat("optimizer; ", wrong, " of the ", setting.updates.size(),
                             " updates with this setting are wrong"));
}

// "optimizer; rank 1: the update of ...". What was listed first has lines of its own for all this.
std::string describe_other(const CompareReport& report, const std::vector<FindingGroup>& groups,
                           const Listed& listed, const Headlines& headlines) {
  std::string sentence = headlines.of(listed, groups);
  if (listed.setting) return sentence;
  const FindingGroup& group = groups[listed.group];
  const comparison::ComparedFinding& shown = report.findings[group.shown];
  const std::string who = describe_who(report, group);
  if (shown.causes.empty()) {  // the sentence has the phase
    append_clause(sentence, who);
    return sentence;
  }
  std::string text(describe_phase(localize::phase_of(report.results[shown.result].key)));
  append_clause(text, who);
  return concat(text, ": ", sentence);
}

void add_also(const CompareReport& report, const std::vector<FindingGroup>& groups,
              const std::vector<Listed>& list, Screen& screen) {
  constexpr std::size_t kMostOfLine = 85;
  constexpr std::size_t kMostOfFinding = 250;
  const Headlines headlines(report);
  std::size_t said = 0;
  for (std::size_t i = 1; i < list.size(); ++i) {
    if (said++ == base::kShown.also) {
      screen.add("also", concat("and ", list.size() - i, " more findings (--all)"),
                 Screen::Keep::kLong);
      break;
    }
    // A second finding may be a second bug: who reads only this screen has to learn of it.
    const bool second = i == 1;
    screen.add("also", concat(i + 1, "  ", describe_other(report, groups, list[i], headlines)),
               second ? Screen::Keep::kAlways : Screen::Keep::kShort,
               second ? kMostOfFinding : kMostOfLine);
  }
  if (report.suspects.empty()) return;
  const answer::Suspect& first = report.suspects.front();
  std::string text =
      concat("suspect: ", to_string(first.key), ", ", base::short_number(first.used),
             " times its tolerance, more than what it follows from: perhaps another bug");
  if (report.suspects.size() > 1) text += concat(" (and ", report.suspects.size() - 1, " more)");
  screen.add("also", text, Screen::Keep::kLong, kMostOfFinding);
}

}  // namespace

void write_screen(const CompareReport& report, const std::vector<FindingGroup>& groups,
                  const WrittenFirstLine& first, const TextStyle& style, std::ostream& out) {
  Screen screen(first.text, style);
  const bool match = report.verdict == answer::Verdict::kRight;
  const std::vector<Listed> list = listed(report, groups);
  const bool diverged = report.verdict == answer::Verdict::kWrong || report.interrupted;
  const bool has_findings = diverged && !list.empty();
  if (has_findings) {
    std::uint64_t step = 0;
    // A layout that is followed is in the sentence; what is behind it comes first on the screen.
    const Listed& main = list.front();
    if (report.microbatches) {
      screen.add("do", describe_microbatches(report), Screen::Keep::kAlways, 400);
    }
    if (report.other_start) {
      add_start(report, screen);
      step = report.other_start->step;
    } else if (main.setting) {
      add_setting(report.settings[*main.setting], report, screen);
      step = report.settings[*main.setting].step;
    } else {
      add_group(report, groups[main.group], screen);
      step = report.results[report.findings[groups[main.group].shown].result].key.step;
    }
    constexpr std::string_view kFirstAt = "first at";
    screen.add(std::string(kFirstAt),
               describe_first_of(report, groups).substr(kFirstAt.size() + 1));
    if (!report.other_start) add_also(report, groups, list, screen);
    screen.add("steps", describe_steps(report), Screen::Keep::kLong);
    screen.add("depth", depth_picture(report, step), Screen::Keep::kLong, 120);
  }
  std::size_t remarks = 0;
  for (const Clause& clause : first.left_out) {
    if (remarks++ == base::kShown.remarks) break;
    screen.add("remark", base::render(clause.message), Screen::Keep::kLong);
  }
  screen.add("runs", describe_runs(report), match ? Screen::Keep::kLong : Screen::Keep::kShort);
  if (!match) {
    screen.add("not checked", concat(describe_compared_unchecked(report), "      more  ",
                                     describe_more(style, has_findings)));
  }
  screen.write(out, match ? kScreenLinesOfMatch : kScreenLines);
}

}  // namespace ttrace::report
