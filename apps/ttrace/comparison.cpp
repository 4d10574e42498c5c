#include "comparison.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "comparison/run_facts.h"
#include "engine/doctor/examine.h"
#include "machine.h"
#include "mapping/map_starter.h"
#include "report/terminal_text.h"
#include "terminal.h"

namespace ttrace::app {
namespace {

// Records which rules skip today: the only effect of the current date on a comparison.
void add_rules_in_force(const engine::CompareOptions& options, comparison::ComparisonId& id) {
  if (options.calibration == nullptr) return;
  std::string in_force;
  for (std::size_t i = 0; i < options.calibration->rules.size(); ++i) {
    const judge::PolicyRule& rule = options.calibration->rules[i];
    if (rule.skip.empty() || !judge::skips(rule, options.today)) continue;
    in_force += base::concat(in_force.empty() ? "" : ", ", i);
  }
  id.facts.emplace_back("the list of its rules that skip today", in_force);
}

bool lost_ranks(const JudgedPair& pair, const comparison::CompareReport& report) {
  return report.counts.at(judge::Outcome::kUnreadable) > 0 &&
         (!comparison::lost_ranks_of(pair.reference()).text.empty() ||
          !comparison::lost_ranks_of(pair.candidate()).text.empty());
}

// Says why two runs could not be compared, as `ttrace doctor` would. Does nothing if they could.
void ask_doctor(const JudgedPairFlags& flags, const JudgedPair& pair,
                comparison::CompareReport& report) {
  const bool undecided = report.verdict == answer::Verdict::kInconclusive;
  if (!undecided || flags.local.given || report.part || report.interrupted) return;
  const bool any_in_both =
      std::any_of(report.results.begin(), report.results.end(), [](const auto& result) {
        return result.reference != nullptr && result.candidate != nullptr;
      });
  if (any_in_both && !lost_ranks(pair, report)) return;
  std::vector<std::string> strays = files_of_no_rank(flags.candidate, pair.candidate());
  for (const engine::Diagnosis& one :
       engine::obstacles(pair.reference(), pair.candidate(), std::move(strays), any_in_both)) {
    report.warnings.push_back(base::concat("ttrace doctor ", pair.reference().path(), " ",
                                           pair.candidate().path(), " says of ", one.name, ": ",
                                           one.text));
  }
}

}  // namespace

ComparisonFlags flags_of(const comparison::ComparisonId& id) {
  ComparisonFlags flags;
  flags.pair.reference = id.reference;
  flags.pair.candidate = id.candidate;
  flags.pair.noise = id.noise;
  flags.pair.tolerance = id.tolerance;
  flags.pair.layout = id.layout;
  flags.pair.map = id.map;
  flags.pair.selection = {id.only, id.skip, id.kinds, id.steps};
  flags.common = id.common;
  flags.pair.local.given = id.local_files;
  return flags;
}

Comparison::Comparison(const ComparisonFlags& flags, std::unique_ptr<trace::Source> candidate)
    : flags_(flags), pair_(flags.pair, std::move(candidate)) {}

comparison::ComparisonId Comparison::id() const {
  const JudgedPairFlags& pair = flags_.pair;
  comparison::ComparisonId id{pair.reference,       pair.candidate,      pair.noise,
                              pair.tolerance,       pair.layout,         pair.map,
                              pair.selection.only,  pair.selection.skip, pair.selection.kinds,
                              pair.selection.steps, flags_.common,       ""};
  id.facts.emplace_back("the version of ttrace", version());
  id.local_files = pair.local.given;
  for (const trace::Source* source : sources()) {
    id.local_files ? add_manifest(*source, id) : add_trace(*source, id);
  }
  for (const std::string& file : {pair.tolerance, pair.layout, pair.map}) add_text(file, id);
  add_rules_in_force(pair_.options(), id);
  return id;
}

std::vector<const trace::Source*> Comparison::sources() const {
  std::vector<const trace::Source*> sources{&pair_.reference(), &pair_.candidate()};
  sources.insert(sources.end(), pair_.noise().begin(), pair_.noise().end());
  return sources;
}

std::map<std::string, std::string> Comparison::files_here() const {
  std::map<std::string, std::string> files;
  for (const trace::Source* source : sources()) add_files_here(*source, files);
  return files;
}

layout::MapFile Comparison::map_starter() const {
  return mapping::start_map(pair_.reference(), pair_.candidate(),
                            execution_context(flags_.pair.threads).thread_count());
}

comparison::CompareReport Comparison::run(comparison::Checkpoint* work,
                                          comparison::WorkDivision division,
                                          const std::atomic<bool>* stop) const {
  engine::CompareOptions options = pair_.options();
  options.common = flags_.common;
  options.work = work;
  options.division = std::move(division);
  options.stop = stop;
  options.all_slices = flags_.all_slices;
  base::inform(base::concat(
      "comparing ", base::plural(pair_.reference().manifest().tensors.size(), "tensor"),
      " of the reference with ",
      base::plural(pair_.candidate().manifest().tensors.size(), "tensor"), ", ",
      pair_.noise().empty()
          ? std::string("without noise runs")
          : base::concat("with ", base::plural(pair_.noise().size(), "noise run")),
      flags_.pair.tolerance.empty() ? "" : ", with a tolerance file",
      flags_.pair.map.empty() ? "" : ", with a map", ", on ",
      base::plural(options.execution.thread_count(), "thread")));
  const std::unique_ptr<base::Progress> progress = progress_display();
  options.progress = progress.get();
  comparison::CompareReport report =
      engine::compare_traces(pair_.reference(), pair_.candidate(), pair_.noise(), options);
  report.layout_rules = flags_.pair.layout;
  ask_doctor(flags_.pair, pair_, report);
  report.environment.version = version();
  return report;
}

GivenAnswer answer_of(const comparison::CompareReport& report, bool all_slices) {
  return {[&report, all_slices](report::Detail detail) {
            return report::to_answer(report, {all_slices, detail});
          },
          nullptr,
          [&report](const report::TextStyle& style, std::ostream& out) {
            report::write_text(report, style, out);
          },
          report.warnings, answer::exit_code(report.verdict)};
}

void SharedComparison::run(comparison::Checkpoint* work, comparison::WorkDivision division,
                           const std::atomic<bool>* stop) {
  report_ = comparison_.run(work, std::move(division), stop);
}

}  // namespace ttrace::app
