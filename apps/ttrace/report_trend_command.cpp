#include <cstddef>
#include <iostream>
#include <memory>
#include <sstream>
#include <vector>

#include "base/deflate.h"
#include "base/files.h"
#include "base/parallel.h"
#include "flags/flag_group.h"
#include "report/nights/trend.h"
#include "report_commands.h"
#include "terminal.h"

namespace ttrace::app {
namespace {

struct ReportTrendFlags {
  std::vector<std::string> reports;
  bool all = false;
  std::string colour = "auto";
};

int run_report_trend(const ReportTrendFlags& flags) {
  std::vector<report::Night> nights(flags.reports.size());
  base::parallel_for(nights.size(), 0, [&](std::size_t i) {
    const std::string& file = flags.reports[i];
    nights[i] = report::read_night(base::gunzipped(base::read_text(file), file), file);
  });
  report::TextStyle style;
  style.colour = wants_colour(1, flags.colour);
  style.all = flags.all;
  std::ostringstream text;
  report::write_trend(nights, style, text);
  std::cout << text.view();
  return 0;
}

}  // namespace

void add_report_trend_command(CLI::App& report, Action& action) {
  CLI::App* command = report.add_subcommand(
      "trend", "how close the worst tensors came to their limits over many nights");
  const auto flags = std::make_shared<ReportTrendFlags>();
  command->add_option("FILE", flags->reports, "reports of one command in JSON, the oldest first")
      ->required();
  const FlagGroup answer(*command, kAnswer);
  answer.flag("--all", flags->all, "every tensor, not the worst ten");
  answer.choice("--color", flags->colour, {"auto", "always", "never"}, "when to use colour");
  command->footer("Exit codes: 0 shown, 2 usage or unreadable report.");
  command->callback([flags, &action] { action = [flags] { return run_report_trend(*flags); }; });
}

}  // namespace ttrace::app
