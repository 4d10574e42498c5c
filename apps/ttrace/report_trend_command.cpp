#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "answer_output.h"
#include "base/deflate.h"
#include "base/files.h"
#include "base/parallel.h"
#include "flags/flag_group.h"
#include "report/nights/trend.h"
#include "report_commands.h"

namespace ttrace::app {
namespace {

struct ReportTrendFlags {
  std::vector<std::string> reports;
  AnswerFlags answer;
};

int run_report_trend(const ReportTrendFlags& flags) {
  AnswerOutput output(flags.answer);
  std::vector<report::Night> nights(flags.reports.size());
  base::parallel_for(nights.size(), 0, [&](std::size_t i) {
    const std::string& file = flags.reports[i];
    nights[i] = report::read_night(base::gunzipped(base::read_text(file), file), file);
  });
  const report::NightTrend trend = report::trend_of(std::move(nights));
  return output.write({[&](report::Detail) { return report::trend_json(trend); },
                       [&](const report::TextStyle& style, std::ostream& out) {
                         report::write_trend(trend, style, out);
                       },
                       {},
                       trend.exit_code()});
}

}  // namespace

void add_report_trend_command(CLI::App& report, Action& action) {
  CLI::App* command = report.add_subcommand(
      "trend", "how close the worst tensors came to their limits over many nights");
  const auto flags = std::make_shared<ReportTrendFlags>();
  command->add_option("FILE", flags->reports, "reports of one command in JSON, the oldest first")
      ->required();
  flags->answer.add_files_to(*command, false);
  FlagGroup(*command, kAnswer).flag("--all", flags->answer.all, "every tensor, not the worst ten");
  add_colour_flag(*command, flags->answer.colour);
  command->footer(
      "Exit codes: 0 shown, 2 usage or unreadable report, 3 the last night checked less than one\n"
      "before it.");
  command->callback([flags, &action] { action = [flags] { return run_report_trend(*flags); }; });
}

}  // namespace ttrace::app
