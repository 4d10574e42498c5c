#include "engine/interruption.h"

#include <string_view>

#include "engine/measure_pairs.h"

namespace ttrace::engine {
namespace {

constexpr std::string_view kInterrupted = "interrupted";

bool is_interrupted(const report::Result& result) {
  return result.outcome == verdict::Outcome::kSkippedByRule && result.reason == kInterrupted;
}

}  // namespace

void mark_interrupted(report::Result& result) {
  result.outcome = verdict::Outcome::kSkippedByRule;
  result.reason = kInterrupted;
  result.comparison.reset();
  result.largest_rank.reset();
  result.largest_local.clear();
}

void mark_unmeasured(std::vector<report::Result>& results) {
  for (report::Result& result : results) {
    if (is_to_be_measured(result)) mark_interrupted(result);
  }
}

std::optional<report::Interruption> interruption_of(const std::vector<report::Result>& results) {
  report::Interruption found;
  bool interrupted = false;
  for (const report::Result& result : results) {
    const bool left = is_interrupted(result);
    const bool done = result.comparison || result.outcome == verdict::Outcome::kUnreadable;
    interrupted = interrupted || left;
    if (done) ++found.measured;
    if (left || done) ++found.of;
  }
  if (!interrupted) return std::nullopt;
  return found;
}

}  // namespace ttrace::engine
