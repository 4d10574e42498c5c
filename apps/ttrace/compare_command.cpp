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

// Named by the report's footer (report/text_report.cpp) and repeated in this folder's README.md.
constexpr const char* kHowToRead =
    "Reading the report:\n"
    "  ε           the rounding error of the precision a tensor was computed in, 1.2e-7 in fp32 "
    "and\n"
    "              7.8e-3 in bf16; an error of 100 ε is 100 such roundings of the tensor's norm\n"
    "  m           how many times its noise a tensor may be off (or, without noise runs, the "
    "bound\n"
    "              of its rule): 4 unless a rule of the tolerance file says otherwise\n"
    "  would pass  at this m the tensor would just have matched: near 4 a close call that more "
    "noise\n"
    "              runs decide, thousands a bug\n"
    "\n"
    "Exit codes: 0 match (clean), 1 diverged (findings), 2 usage or unreadable input,\n"
    "3 inconclusive (nothing compared, ranks missing, interrupted, all under the noise floor).";

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
  command->footer(kHowToRead);
  command->callback([flags, &action] {
    flags->comparison.all_slices = flags->report.all_slices;
    action = [flags] { return run(*flags); };
  });
}

}  // namespace ttrace::app
