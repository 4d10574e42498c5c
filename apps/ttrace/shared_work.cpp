#include "shared_work.h"

#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "state_file.h"
#include "stop_signal.h"

namespace ttrace::app {
namespace {

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

comparison::PartNumber part_number(const std::string& text) {
  const std::size_t slash = text.find('/');
  if (slash != std::string::npos) {
    const auto index = whole_number(std::string_view(text).substr(0, slash));
    const auto of = whole_number(std::string_view(text).substr(slash + 1));
    if (index && of && *index >= 1 && *index <= *of) return {*index, *of};
  }
  throw base::usage_error("--part ", base::printable(text),
                          ": expected a part and how many there are, from 1/8 to 8/8");
}

}  // namespace

void SharedWorkFlags::add_to(CLI::App& command) {
  command.add_option("--resume", resume,
                     "keep what is finished in this file, and go on from what it has");
  command.add_option("--part", part,
                     "I/N: compare this share of the tensors; `ttrace report merge` joins the "
                     "--json files of all");
  command
      .add_option("--mpi", mpi,
                  "auto: processes that mpirun has started share the work, and rank 0 reports; off")
      ->check(CLI::IsMember({"auto", "off"}));
}

void say_how_to_go_on(const SharedWorkFlags& flags, comparison::CompareReport& report) {
  if (!report.interrupted) return;
  report.why += flags.resume.empty() ? "; with --resume STATE it could go on from there"
                                     : "; the same command goes on from there";
}

comparison::CompareReport compared(const Comparison& comparison, const SharedWorkFlags& flags,
                                   bool for_merge) {
  comparison::WorkDivision division;
  if (!flags.part.empty()) division.part = part_number(flags.part);
  comparison::ComparisonId id;
  if (!flags.resume.empty() || division.part) id = comparison.id();

  const StopSignal stop;
  std::optional<StateFile> state;
  std::function<void(const std::string&)> on_line;
  if (!flags.resume.empty()) {
    state.emplace(flags.resume, id);
    on_line = [&state](const std::string& line) { state->append(line); };
  }
  comparison::FinishedWork work(on_line, division.part && for_merge);
  if (state) state->load(work);
  comparison::CompareReport report = comparison.run(&work, division, &stop.flag());
  say_how_to_go_on(flags, report);
  if (division.part) {
    report.part = comparison::PartOfWork{*division.part, report.interrupted.has_value(),
                                         std::move(id), work.lines()};
  }
  return report;
}

}  // namespace ttrace::app
