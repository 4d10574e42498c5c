#include <memory>
#include <optional>
#include <sstream>

#include "answer_output.h"
#include "command.h"
#include "engine/selftest_traces.h"
#include "inputs.h"
#include "machine.h"
#include "report/json/selftest_report_json.h"
#include "report/selftest_text.h"
#include "report/terminal_text.h"
#include "report/text_report.h"

namespace ttrace::app {
namespace {

struct SelftestFlags {
  JudgedPairFlags pair;
  AnswerFlags answer;
};

int run_selftest(const SelftestFlags& flags) {
  AnswerOutput output(flags.answer);
  const JudgedPair pair(flags.pair);
  comparison::SelftestReport report =
      engine::selftest_traces(pair.reference(), pair.candidate(), pair.noise(), pair.options());
  report.environment.version = version();

  return output.write({nullptr, [&] { return report::selftest_json(report); },
                       [&](const report::TextStyle& style, std::ostream& out) {
                         std::ostringstream text;
                         report::write_selftest(report, style.all, text);
                         out << report::folded(text.str(), style.width);
                       },
                       report.warnings, comparison::exit_code(report)});
}

}  // namespace

void add_selftest_command(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("selftest", "which faults would comparing this healthy pair catch?");
  const auto flags = std::make_shared<SelftestFlags>();
  flags->pair.add_to(*command, "a trace that matches it");
  flags->answer.add_to(*command, "list every fault that is missed", false);
  command->footer(
      "Exit codes: 0 the faults were tried, 1 the pair diverged without any, 2 usage or "
      "unreadable\n"
      "input, 3 the comparison is inconclusive or no fault changes a value.");
  command->callback([flags, &action] { action = [flags] { return run_selftest(*flags); }; });
}

}  // namespace ttrace::app
