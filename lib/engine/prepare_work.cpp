#include "engine/prepare_work.h"

#include "base/error.h"
#include "base/number_text.h"
#include "engine/measure_pairs.h"
#include "engine/share_of_work.h"

namespace ttrace::engine {
namespace {

void leave_to_others(const report::PartNumber& mine, const std::vector<std::uint64_t>& part,
                     std::vector<report::Result>& results) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!is_to_be_measured(results[i]) || part[i] + 1 == mine.index) continue;
    results[i].outcome = verdict::Outcome::kSkippedByRule;
    results[i].reason = base::concat("in part ", part[i] + 1, " of ", mine.of);
  }
}

}  // namespace

void prepare_work(const WorkDivision& division, const trace::Source& candidate,
                  const std::vector<Pair>& pairs, FinishedWork& work,
                  std::vector<report::Result>& results) {
  std::vector<std::uint64_t> part;
  if (division.part || !division.measured_by.empty()) {
    part = parts_of(pairs, results, candidate.manifest(),
                    division.part ? division.part->of : division.measured_by.size());
  }
  if (division.part) leave_to_others(*division.part, part, results);
  restore_measurements(work, candidate, pairs, results);
  if (division.measured_by.empty()) return;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (!is_to_be_measured(results[i])) continue;
    throw base::input_error(division.measured_by[part[i]], ": lacks the measurement of ",
                            base::printable(to_string(pairs[i].key)),
                            "; run this part again to its end");
  }
}

}  // namespace ttrace::engine
