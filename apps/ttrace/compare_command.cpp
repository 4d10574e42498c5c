#include <iostream>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "command.h"
#include "comparison.h"
#include "comparison/checkpoint_lines.h"
#include "flags/flag_group.h"
#include "flags/policy.h"
#include "mpi_ranks.h"
#include "outputs.h"
#include "report/compare_report_json.h"
#include "report/part_of_work_json.h"

namespace ttrace::app {
namespace {

constexpr char kCompleted = 'd';
constexpr char kInterrupted = 'i';

// The text of a rank's share: which comparison, whether it was completed, and its measurements, one
// per line.
std::string text_of(const comparison::PartOfWork& part) {
  std::string text = report::comparison_id_text(part.comparison);
  text += '\n';
  text += part.interrupted ? kInterrupted : kCompleted;
  for (const std::string& line : part.measurements) text.append("\n").append(line);
  return text;
}

// The shares of all ranks.
struct Gathered {
  comparison::Checkpoint work;
  comparison::WorkDivision division;
  bool interrupted = false;
};

void add_rank(const std::string& text, const comparison::ComparisonId& mine, Gathered& all) {
  const std::string name = base::concat("rank ", all.division.measured_by.size());
  all.division.measured_by.push_back(name);
  std::size_t at = text.find('\n');
  const base::JsonDocument document(text.substr(0, at), name);
  const std::string difference =
      describe_difference(report::comparison_id_from(document.root()), mine);
  if (!difference.empty()) {
    throw base::input_error(name, ": sees other files than rank 0: ", difference);
  }
  all.interrupted = all.interrupted || text.at(at + 1) == kInterrupted;
  for (at = text.find('\n', at + 1); at != std::string::npos;) {
    const std::size_t end = text.find('\n', at + 1);
    all.work.restore(
        comparison::parse_finished(std::string_view(text).substr(at + 1, end - at - 1)));
    at = end;
  }
}

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

void require_starter_alone(const CompareFlags& flags) {
  flags.comparison.require_not_input(flags.map_starter);
  if (flags.map_starter.empty()) return;
  if (flags.map_starter == "-") {
    throw base::usage_error(
        "--map-starter is written beside the report; give it a file, not standard output");
  }
  if (flags.work.resume == flags.map_starter) {
    throw base::usage_error(
        "--map-starter and --resume name the same file; give each one of its own");
  }
}

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

// Runs the comparison as one of the processes that mpirun has started. Measures this rank's share;
// rank 0 then reports on all shares and returns the exit code of the verdict, the other ranks
// return 0. If a rank throws, the job ends.
int compare_as_rank(const MpiRank& me, const CompareFlags& flags) {
  const ComparisonFlags& asked = flags.comparison;
  const SharedWorkFlags& work = flags.work;
  if (!work.part.empty()) {
    throw base::usage_error(
        "--part divides the work that mpirun has divided already; leave it "
        "out, or say --mpi off");
  }
  const MpiModule module;
  std::optional<AnswerOutput> output;
  if (me.rank == 0) output.emplace(flags.answer);
  const auto policy = flags.policy.read();
  const Comparison comparison(asked);
  SharedWorkFlags mine = work;
  mine.part = base::concat(me.rank + 1, "/", me.size);
  if (!mine.resume.empty()) mine.resume += base::concat(".rank", me.rank);
  const comparison::PartOfWork part = *run_comparison(comparison, mine, true).part;

  const std::vector<std::string> texts = module.gathered(text_of(part));
  if (me.rank != 0) return 0;
  Gathered all;
  for (const std::string& text : texts) add_rank(text, part.comparison, all);
  const std::atomic<bool> stop{all.interrupted};
  if (all.interrupted) all.division = {};  // the report then lists what was not measured
  comparison::CompareReport report = comparison.run(&all.work, std::move(all.division), &stop);
  add_resume_hint(work, report);
  return output->write(policed(answer_of(report, asked.all_slices), policy));
}

int run_compare(const CompareFlags& flags) {
  for (const std::string& file : flags.answer.files) flags.comparison.require_not_input(file);
  flags.comparison.require_not_input(flags.work.resume);
  std::vector<NamedFile> others = flags.policy.files();
  others.emplace_back("--resume", flags.work.resume);
  others.emplace_back("--map-starter", flags.map_starter);
  require_own_files(flags.answer, others);
  require_starter_alone(flags);
  const auto rank = flags.work.mpi == "off" ? std::nullopt : mpi_rank();
  if (rank && !flags.map_starter.empty()) {
    throw base::usage_error("--map-starter is for one process; leave mpirun out");
  }
  if (rank) return compare_as_rank(*rank, flags);
  if (!flags.work.part.empty() && flags.policy.is_given()) {
    throw base::usage_error(
        "--part compares a share, and --known, --require and --since are of the whole; give them "
        "to `ttrace report merge`");
  }
  const auto policy = flags.policy.read();
  AnswerOutput output(flags.answer);
  OutputFile starter_file(flags.map_starter);
  const Comparison comparison(flags.comparison);
  std::optional<layout::MapFile> starter;
  if (starter_file.wanted()) {
    starter = comparison.map_starter();
    starter_file.store(layout::map_file_text(*starter));
  }
  const comparison::CompareReport report =
      run_comparison(comparison, flags.work, !flags.answer.json().empty());
  const int exit_code =
      output.write(policed(answer_of(report, flags.comparison.all_slices), policy));
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
  traces.value("--truth RUN", flags->comparison.truth,
               "the reference in higher precision: says which side is nearer to it");
  FlagGroup(*command, kWhat)
      .flag("--common", flags->comparison.common,
            "judge what both sides have, and count what one side lacks");
  traces
      .value("--map-starter FILE", flags->map_starter, "also write rules for --map to start from")
      ->excludes("--map");
  flags->work.add_to(*command);
  flags->answer.add_to(*command, kAllOfComparison);
  flags->policy.add_to(*command);
  add_slices_flag(*command, flags->comparison.all_slices);
  command->footer(kHowToReadComparison);
  command->callback([flags, &action] { action = [flags] { return run_compare(*flags); }; });
}

}  // namespace ttrace::app
