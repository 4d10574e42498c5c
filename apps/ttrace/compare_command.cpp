#include <memory>
#include <optional>

#include "base/error.h"
#include "command.h"
#include "comparison.h"
#include "mpi_compare.h"
#include "report_output.h"
#include "shared_work.h"

namespace ttrace::app {
namespace {

struct Flags {
  ComparisonFlags comparison;
  SharedWorkFlags work;
  ReportFlags report;
};

int run(const Flags& flags) {
  flags.comparison.require_not_input(flags.report.json);
  flags.comparison.require_not_input(flags.work.resume);
  if (!flags.work.resume.empty() && flags.work.resume == flags.report.json) {
    throw base::usage_error("--json and --resume name the same file; give each one of its own");
  }
  const auto rank = flags.work.mpi == "off" ? std::nullopt : mpi_rank();
  if (rank) return compare_as_rank(*rank, flags.comparison, flags.work, flags.report);
  ReportOutput output(flags.report);
  const Comparison comparison(flags.comparison);
  return output.write(compared(comparison, flags.work, !flags.report.json.empty()));
}

}  // namespace

void add_compare_command(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("compare", "compare a run with its reference, first divergence first");
  const auto flags = std::make_shared<Flags>();
  flags->comparison.pair.add_to(*command, "the trace to check");
  command->add_option("--truth", flags->comparison.truth,
                      "the reference run in higher precision: which side is nearer to it is shown "
                      "beside every verdict and changes none");
  flags->work.add_to(*command);
  flags->report.add_to(*command);
  command->callback([flags, &action] { action = [flags] { return run(*flags); }; });
}

}  // namespace ttrace::app
