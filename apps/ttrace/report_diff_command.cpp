#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "answer_output.h"
#include "base/deflate.h"
#include "base/parallel.h"
#include "flags/flag_group.h"
#include "report/nights/diff_text.h"
#include "report_commands.h"

namespace ttrace::app {
namespace {

struct ReportDiffFlags {
  std::string older;
  std::string newer;
  AnswerFlags answer;
};

int run_report_diff(const ReportDiffFlags& flags) {
  AnswerOutput output(flags.answer);
  const std::vector<std::string> files{flags.older, flags.newer};
  std::array<report::Night, 2> nights;
  base::parallel_for(nights.size(), base::reports_at_once(files), [&](std::size_t i) {
    nights[i] = report::read_night(base::read_report(files[i]), files[i]);
  });
  const report::NightDiff diff = report::diff_nights(std::move(nights[0]), std::move(nights[1]));
  return output.write({nullptr,
                       [&] { return report::diff_json(diff); },
                       [&](const report::TextStyle& style, std::ostream& out) {
                         report::write_diff(diff, style, out);
                       },
                       {},
                       diff.exit_code});
}

}  // namespace

void add_report_diff_command(CLI::App& report, Action& action) {
  CLI::App* command = report.add_subcommand(
      "diff", "what is new in a report since another one: newly diverged, healed, worse, better");
  const auto flags = std::make_shared<ReportDiffFlags>();
  command->add_option("OLD", flags->older, "the earlier report in JSON, or FILE.json.gz")
      ->required();
  command->add_option("NEW", flags->newer, "the later one, of the same command")->required();
  const FlagGroup answer(*command, kAnswer);
  flags->answer.add_files_to(*command, false);
  answer.flag("--all", flags->answer.all, "list every finding and tensor that changed");
  answer.choice("--format", flags->answer.format, {"text", "line"},
                "one screen, or its first line alone");
  answer.choice("--color", flags->answer.colour, {"auto", "always", "never"}, "when to use colour");
  command->footer(
      "Exit codes: 0 nothing new, 1 something diverged newly or in another way, 2 usage or\n"
      "unreadable report, 3 that cannot be said, or less was checked.");
  command->callback([flags, &action] { action = [flags] { return run_report_diff(*flags); }; });
}

}  // namespace ttrace::app
