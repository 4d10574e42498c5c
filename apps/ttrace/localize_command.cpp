#include <memory>
#include <optional>
#include <utility>

#include "base/deflate.h"
#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "command.h"
#include "comparison.h"
#include "engine/localize_trace.h"
#include "flags/flag_group.h"
#include "inputs.h"
#include "layout/layout_rules.h"
#include "layout/map_rules.h"
#include "localization.h"
#include "machine.h"
#include "outputs.h"
#include "report/compare_report_json.h"
#include "report/localize_report.h"
#include "report/plan_json.h"
#include "report/reported_comparison.h"
#include "report/terminal_text.h"
#include "specification/specification.h"

namespace ttrace::app {
namespace {

// What `ttrace compare` found: given, read from its report, or compared now. All go through the
// same JSON, so that they give the same answer.
localize::ReportedComparison reported_comparison(const LocalizeFlags& flags,
                                                 const comparison::CompareReport* compared) {
  const auto in_memory = [](const comparison::CompareReport& report) {
    return report::parse_reported(report::json_text(report), "the comparison");
  };
  if (compared != nullptr) return in_memory(*compared);
  if (!flags.report.empty()) {
    localize::ReportedComparison reported = report::parse_reported(
        base::gunzipped(base::read_text(flags.report), flags.report), flags.report);
    if (reported.layout_rules.empty() != flags.comparison.pair.layout.empty()) {
      throw base::input_error(flags.report, ": was made ",
                              reported.layout_rules.empty()
                                  ? "without --layout; leave it out here too"
                                  : "with --layout; give the same file here");
    }
    return reported;
  }
  const Comparison comparison(flags.comparison);
  return in_memory(comparison.run(nullptr, {}, nullptr));
}

// The candidate under the layouts that the comparison followed; null where it followed none.
std::unique_ptr<trace::Source> under_followed_layouts(
    const trace::Source& candidate, const localize::ReportedComparison& compared) {
  if (compared.followed_layouts.empty()) return nullptr;
  std::string rules;
  for (const std::string& rule : compared.followed_layouts) {
    rules += base::concat(rules.empty() ? "" : ", ", rule);
  }
  return std::make_unique<trace::WithManifest>(
      candidate, layout::with_layout_rules(
                     candidate.manifest(),
                     base::concat(R"({"schema": "ttrace.layout/1", "rules": [)", rules, "]}"),
                     base::concat(compared.file, ": followed_layouts")));
}

// A report says what was compared, and how: these flags would have no effect.
void require_no_comparison_flags(const LocalizeFlags& flags) {
  if (flags.report.empty()) return;
  const JudgedPairFlags& pair = flags.comparison.pair;
  const SelectionFlags& selection = pair.selection;
  const std::pair<const char*, bool> given[] = {
      {"--noise", !pair.noise.empty()},     {"--tolerance", !pair.tolerance.empty()},
      {"--map", !pair.map.empty()},         {"--only", !selection.only.empty()},
      {"--skip", !selection.skip.empty()},  {"--kind", !selection.kinds.empty()},
      {"--step", !selection.steps.empty()},
  };
  for (const auto& [flag, is_given] : given) {
    if (!is_given) continue;
    throw base::usage_error(flag, " has no effect beside --report: the traces are not compared ",
                            "again; leave one of the two out");
  }
}

// The plan is a file of its own, and no input.
void require_other_file(const LocalizeFlags& flags) {
  if (flags.plan.empty()) return;
  if (is_stdout(flags.plan)) {
    throw base::usage_error("--plan: the answer goes to standard output, name a file");
  }
  flags.comparison.require_not_input(flags.plan);
  for (const std::string& other :
       {flags.specification, flags.candidate_specification, flags.report}) {
    if (flags.plan == other) {
      throw base::usage_error("--plan and another argument name the same file, ", other);
    }
  }
}

int run_localize(const LocalizeFlags& flags) {
  for (const std::string& file : flags.answer.files) flags.comparison.require_not_input(file);
  if (!flags.candidate_specification.empty() && flags.specification.empty()) {
    throw base::usage_error("--candidate-specification needs --specification, to compare it with");
  }
  std::vector<NamedFile> others = flags.policy.files();
  others.emplace_back("--specification", flags.specification);
  others.emplace_back("--candidate-specification", flags.candidate_specification);
  others.emplace_back("--report", flags.report);
  others.emplace_back("--plan", flags.plan);
  require_own_files(flags.answer, others);
  const auto policy = flags.policy.read();
  require_other_file(flags);
  require_no_comparison_flags(flags);
  AnswerOutput output(flags.answer);
  OutputFile plan(flags.plan);
  return with_localization(flags, plan, nullptr, [&](const Answer& answer) {
    return output.write(policed(answer, policy));
  });
}

}  // namespace

int with_localization(const LocalizeFlags& flags, OutputFile& plan,
                      const comparison::CompareReport* compared,
                      const std::function<int(const Answer&)>& write) {
  engine::LocalizeOptions options;
  options.execution = execution_context(flags.comparison.pair.threads);
  options.layers = flags.layers;
  options.all_layers = flags.all_layers;
  options.run_argument = flags.comparison.pair.candidate;
  options.plan_file = flags.plan;
  std::optional<specification::Specification> specification;
  if (!flags.specification.empty()) {
    specification = read_specification(flags.specification);
    options.specification = &*specification;
    options.specification_file = flags.specification;
  }
  std::optional<specification::Specification> of_candidate;
  if (!flags.candidate_specification.empty()) {
    of_candidate = read_specification(flags.candidate_specification, specification->bytes);
    options.candidate_specification = &*of_candidate;
    options.candidate_specification_file = flags.candidate_specification;
  }
  std::optional<layout::MapRules> map;
  if (const std::string& file = flags.comparison.pair.map; !file.empty()) {
    map = layout::parse_map_rules(base::read_text(file), file);
    options.map = &*map;
  }
  const std::unique_ptr<trace::Source> reference = open_and_log(flags.comparison.pair.reference);
  const OpenedTrace candidate(flags.comparison.pair.candidate, flags.comparison.pair.layout);
  localize::ReportedComparison reported = reported_comparison(flags, compared);
  const std::unique_ptr<trace::Source> relaid = under_followed_layouts(*candidate, reported);
  localize::LocalizeReport report = engine::localize_trace(
      *reference, relaid ? *relaid : *candidate, std::move(reported), options);
  report.environment.version = version();
  if (report.written_plan) plan.store(report::plan_json(report.written_plan->plan));

  return write({[&](report::Detail) { return report::localize_json(report); },
                [&](const report::TextStyle& style, std::ostream& out) {
                  report::write_localize(report, style, out);
                },
                report.warnings, report.exit_code()});
}

void add_localize_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "localize", "explain what a comparison found: what does not follow from its inputs");
  const auto flags = std::make_shared<LocalizeFlags>();
  flags->comparison.pair.add_to(*command, "the trace to explain");
  const FlagGroup traces(*command, kTraces);
  const FlagGroup what(*command, kWhat);
  add_specification_flag(*command, flags->specification);
  traces.value("--candidate-specification FILE", flags->candidate_specification,
               "the same of the candidate's code: what differs is a finding");
  what.value("--layer GLOB", flags->layers,
             "also judge the modules that match, whatever was found");
  what.flag("--all-layers", flags->all_layers, "also judge every module");
  traces.value("--report FILE", flags->report,
               "the JSON report of comparing these traces; nothing is compared again");
  FlagGroup(*command, kAnswer)
      .value("--plan FILE", flags->plan,
             "write a plan: a second pair of runs that isolates what differs");
  flags->answer.add_to(*command, "print every finding and every module");
  flags->policy.add_to(*command);
  command->footer(
      "Exit codes: 0 nothing to explain, 1 findings, 2 unusable, 3 inconclusive. Nights: --known, "
      "README.");
  command->callback([flags, &action] { action = [flags] { return run_localize(*flags); }; });
}

}  // namespace ttrace::app
