#include <iostream>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "command.h"
#include "comparison.h"
#include "flags/flag_group.h"
#include "flags/policy.h"
#include "outputs.h"
#include "shared_work.h"

namespace ttrace::app {
namespace {

struct CompareFlags {
  ComparisonFlags comparison;
  SharedWorkFlags work;
  AnswerFlags answer;
  PolicyFlags policy;
  std::string map_starter;
};

constexpr const char* kHowToReadComparison =
    "`ttrace explain used`, likewise m, ε, \"would pass\", frontier. --known, --require, --since: "
    "README.\n"
    "Exit codes: 0 match, 1 diverged, 2 usage or unreadable input, 3 too little could be checked.";

// Prints what the draft of the rules contains. Comes last, because the answer above it lists the
// names that do not match yet.
void print_starter_summary(const CompareFlags& flags, const layout::MapFile& starter) {
  const std::size_t rules = starter.reference.size() + starter.candidate.size();
  const std::size_t open = starter.unmatched_reference.size() + starter.unmatched_candidate.size();
  std::cout << "\n  " << base::printable(flags.map_starter) << " has "
            << base::plural(rules, "rule") << " to start from";
  if (open > 0) std::cout << ", " << open << " for names that only one side has";
  if (!starter.ambiguous.empty()) {
    std::cout << ", " << base::plural(starter.ambiguous.size(), "ambiguous name");
  }
  if (!starter.notes.empty()) {
    std::cout << ", " << base::plural(starter.notes.size(), "note")
              << ".\n  Note: " << base::printable(starter.notes.front());
  }
  std::cout << ".\n  Read it, then: ttrace compare "
            << base::printable(flags.comparison.pair.reference) << " "
            << base::printable(flags.comparison.pair.candidate) << " --map "
            << base::printable(flags.map_starter) << "\n";
}

int run_compare(const CompareFlags& flags) {
  require_part_for(flags.comparison.pair.local, flags.work);
  if (is_stdout(flags.map_starter)) {
    throw base::usage_error(
        "--map-starter is written beside the report; give it a file, not standard output");
  }
  const auto rank = rank_of(flags.work);
  if (rank && !flags.map_starter.empty()) {
    throw base::usage_error("--map-starter is for one process; leave mpirun out");
  }
  if (rank) {
    return run_as_rank(*rank, flags.work, flags.answer, flags.policy,
                       [&] { return std::make_unique<SharedComparison>(flags.comparison); });
  }
  require_whole_for(flags.policy, flags.work);
  const auto policy = flags.policy.read();
  AnswerOutput output(flags.answer);
  OutputFile starter_file(flags.map_starter);
  SharedComparison work(flags.comparison);
  std::optional<layout::MapFile> starter;
  if (starter_file.wanted()) {
    starter = work.comparison().map_starter();
    starter_file.store(layout::map_file_text(*starter));
  }
  run_share(work, flags.work, !flags.answer.json().empty());
  const int exit_code = output.write(policed(work.answer(), policy));
  if (starter) print_starter_summary(flags, *starter);
  return exit_code;
}

}  // namespace

void add_compare_command(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("compare", "compare a run with its reference, first divergence first");
  const auto flags = std::make_shared<CompareFlags>();
  flags->comparison.pair.add_to(*command, "the trace to check");
  const FlagGroup traces(*command, kTraces);
  FlagGroup(*command, kWhat)
      .flag("--common", flags->comparison.common,
            "judge what both sides have, and count what one side lacks");
  traces
      .value("--map-starter FILE", flags->map_starter, "also write rules for --map to start from")
      ->excludes("--map");
  flags->work.add_to(*command, "compare", flags->comparison.pair.local);
  flags->answer.add_to(*command, kAllOfComparison);
  flags->policy.add_to(*command);
  add_slices_flag(*command, flags->comparison.all_slices);
  command->footer(kHowToReadComparison);
  command->callback([flags, &action] { action = [flags] { return run_compare(*flags); }; });
}

}  // namespace ttrace::app
