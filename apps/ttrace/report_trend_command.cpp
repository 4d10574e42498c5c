#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "answer_output.h"
#include "base/deflate.h"
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
  // Block by block, because a report takes much more memory than what is kept of it.
  const std::size_t block = base::reports_at_once(flags.reports);
  const auto read = [](const std::string& file) {
    return report::read_night(base::read_report(file), file);
  };
  report::TrendReader reader(read(flags.reports.back()));
  const std::size_t before_last = flags.reports.size() - 1;
  for (std::size_t first = 0; first < before_last; first += block) {
    std::vector<report::Night> nights(std::min(block, before_last - first));
    base::parallel_for(nights.size(), 0,
                       [&](std::size_t i) { nights[i] = read(flags.reports[first + i]); });
    for (report::Night& night : nights) reader.add(std::move(night));
  }
  const report::NightTrend trend = std::move(reader).done();
  return output.write({nullptr,
                       [&] { return report::trend_json(trend); },
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
