#include "mpi_compare.h"

#include <optional>

#include "base/error.h"
#include "base/strict_json.h"
#include "report/part_of_work.h"

namespace ttrace::app {
namespace {

constexpr char kGoneThrough = 'd';
constexpr char kInterrupted = 'i';

// Which comparison, whether it went through, and what was measured, line by line.
std::string text_of(const comparison::PartOfWork& part) {
  std::string text = report::comparison_id_text(part.comparison);
  text += '\n';
  text += part.interrupted ? kInterrupted : kGoneThrough;
  for (const std::string& line : part.measurements) text.append("\n").append(line);
  return text;
}

struct Gathered {
  comparison::FinishedWork work;
  comparison::WorkDivision division;
  bool interrupted = false;
};

void take(const std::string& text, const comparison::ComparisonId& mine, Gathered& all) {
  const std::string name = base::concat("rank ", all.division.measured_by.size());
  all.division.measured_by.push_back(name);
  std::size_t at = text.find('\n');
  const base::JsonDocument document(text.substr(0, at), name);
  const std::string words = difference_words(report::comparison_id_from(document.root()), mine);
  if (!words.empty()) {
    throw base::input_error(name, ": sees other files than rank 0: ", words);
  }
  all.interrupted = all.interrupted || text.at(at + 1) == kInterrupted;
  for (at = text.find('\n', at + 1); at != std::string::npos;) {
    const std::size_t end = text.find('\n', at + 1);
    all.work.know(comparison::parse_finished(std::string_view(text).substr(at + 1, end - at - 1)));
    at = end;
  }
}

}  // namespace

int compare_as_rank(const MpiRank& me, const ComparisonFlags& asked, const SharedWorkFlags& work,
                    const ReportFlags& report_flags) {
  if (!work.part.empty()) {
    throw base::usage_error(
        "--part divides the work that mpirun has divided already; leave it "
        "out, or say --mpi off");
  }
  const MpiModule module;
  std::optional<ReportOutput> output;
  if (me.rank == 0) output.emplace(report_flags);
  const Comparison comparison(asked);
  SharedWorkFlags mine = work;
  mine.part = base::concat(me.rank + 1, "/", me.size);
  if (!mine.resume.empty()) mine.resume += base::concat(".rank", me.rank);
  const comparison::PartOfWork part = *compared(comparison, mine, true).part;

  const std::vector<std::string> texts = module.gathered(text_of(part));
  if (me.rank != 0) return 0;
  Gathered all;
  for (const std::string& text : texts) take(text, part.comparison, all);
  const std::atomic<bool> stop{all.interrupted};
  if (all.interrupted) all.division = {};  // what was not measured is what the report tells
  comparison::CompareReport report = comparison.run(&all.work, std::move(all.division), &stop);
  say_how_to_go_on(work, report);
  return output->write(report);
}

}  // namespace ttrace::app
