#include <memory>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "command.h"
#include "engine/selftest_traces.h"
#include "inputs.h"
#include "machine.h"
#include "outputs.h"
#include "report/json_report.h"
#include "report/text_report.h"
#include "terminal.h"

namespace ttrace::app {
namespace {

struct SelftestFlags {
  JudgedPairFlags pair;
  std::string json;
  bool all = false;
};

int run_selftest(const SelftestFlags& flags) {
  flags.pair.require_not_input(flags.json);
  OutputFile json(flags.json);
  const JudgedPair pair(flags.pair);
  comparison::SelftestReport report =
      engine::selftest_traces(pair.reference(), pair.candidate(), pair.noise(), pair.options());
  report.environment.version = version();

  return write_answer(flags.json, json,
                      {[&] { return report::selftest_json(report); },
                       [&](int descriptor) {
                         std::ostringstream text;
                         report::write_selftest(report, flags.all, text);
                         return report::folded(text.str(), text_width(descriptor));
                       },
                       report.warnings, comparison::exit_code(report)});
}

}  // namespace

void add_selftest_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "selftest", "which faults would comparing this healthy pair catch? tries them in memory");
  const auto flags = std::make_shared<SelftestFlags>();
  flags->pair.add_to(*command, "a trace that matches it");
  command->add_option("--json", flags->json,
                      "also write the answer as JSON to this file; - is standard output, and the "
                      "text goes to stderr then");
  command->add_flag("--all", flags->all, "list every fault that is missed");
  command->footer(
      "Exit codes: 0 the faults were tried, 1 the pair diverged without any, 2 usage or "
      "unreadable\n"
      "input, 3 the comparison is inconclusive or no fault changes a value.");
  command->callback([flags, &action] { action = [flags] { return run_selftest(*flags); }; });
}

}  // namespace ttrace::app
