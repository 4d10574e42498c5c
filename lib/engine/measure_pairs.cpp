#include "engine/measure_pairs.h"

#include "base/error.h"
#include "base/parallel.h"
#include "compare/measure.h"

namespace ttrace::engine {
namespace {

using report::Result;

void measure_pair(const MeasuredSides& sides, const Pair& pair, Result& result) {
  try {
    report::Comparison comparison;
    std::uint64_t noise_bytes = 0;
    if (!result.exact) comparison.noise = sides.noise.of(sides.reference, pair, noise_bytes);
    const compare::Grid* grid = comparison.noise ? &comparison.noise->grid : nullptr;
    comparison.measurement = compare::measure({&sides.reference, pair.reference},
                                              {&sides.candidate, pair.candidate}, grid);
    comparison.measurement.bytes_read += noise_bytes;
    if (const auto& place = comparison.measurement.largest_place) {
      result.largest_rank = place->rank;
      result.largest_local = place->local;
    }
    result.comparison = std::move(comparison);
  } catch (const base::Error& error) {
    if (error.kind() != base::ErrorKind::kInput) throw;
    result.outcome = verdict::Outcome::kUnreadable;
    result.reason = error.what();
  }
}

}  // namespace

bool is_to_be_measured(const Result& result) {
  return result.outcome == verdict::Outcome::kMatch && !result.comparison;
}

void measure_pairs(const MeasuredSides& sides, const std::vector<Pair>& pairs, unsigned threads,
                   std::vector<Result>& results, const WorkHooks& hooks) {
  base::parallel_for(pairs.size(), threads, [&](std::size_t i) {
    if (!is_to_be_measured(results[i]) || hooks.stopped()) return;
    measure_pair(sides, pairs[i], results[i]);
    if (hooks.finished) hooks.finished(i);
  });
}

}  // namespace ttrace::engine
