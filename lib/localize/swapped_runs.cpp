#include "localize/swapped_runs.h"

#include "base/error.h"
#include "layout/mesh.h"
#include "localize/causes/cause.h"
#include "measure/measure.h"

namespace ttrace::localize {

using comparison::SwappedRuns;
using comparison::TensorComparison;

std::optional<SwappedRuns> find_swapped_runs(
    const trace::Source& reference, const trace::Source& candidate, const measure::Backend& backend,
    const std::vector<TensorComparison>& results,
    const std::vector<comparison::ComparedFinding>& findings) {
  constexpr std::size_t kMostRead = 16;
  const std::size_t ranks = layout::ranks_of(reference.manifest()).size();
  if (ranks < 2 || layout::ranks_of(candidate.manifest()).size() != 1) return std::nullopt;
  SwappedRuns swapped{ranks, std::nullopt};
  const Related pairs(results, reference, candidate);
  std::size_t read = 0;
  for (const comparison::ComparedFinding& finding : findings) {
    const TensorComparison& result = results[finding.result];
    if (!result.comparison || swapped.disagreeing || read++ == kMostRead) continue;
    try {
      // Passed in the opposite order, because measure() checks the replicas of its second tensor.
      if (measure::measure(backend, pairs.candidate(result), pairs.reference(result), nullptr)
              .replicas_differ) {
        swapped.disagreeing = finding.result;
      }
    } catch (const base::Error&) {
    }
  }
  return swapped;
}

base::Message describe_swapped(const SwappedRuns& swapped) {
  return {
      swapped.disagreeing
          ? "REF and RUN look swapped: the reference has {ranks} ranks, and their own copies differ"
          : "REF and RUN look swapped: the reference has {ranks} ranks and the candidate one",
      {{"ranks", swapped.ranks}}};
}

}  // namespace ttrace::localize
