#include "engine/finished_work.h"

#include "base/error.h"
#include "base/number_text.h"
#include "engine/finished_checks.h"
#include "engine/measure_pairs.h"

namespace ttrace::engine {
namespace {

FinishedMeasurement measured_of(const report::Result& result) {
  FinishedMeasurement finished;
  if (result.comparison) {
    finished.measurement = result.comparison->measurement;
    finished.noise = result.comparison->noise;
  } else {
    finished.unreadable = result.reason;
  }
  return finished;
}

}  // namespace

bool FinishedWork::know(Finished finished) {
  Id id{finished.key, finished.what.index()};
  return known_.insert_or_assign(std::move(id), std::move(finished)).second;
}

std::optional<Finished> FinishedWork::taken(const trace::TensorKey& key, std::size_t index) {
  const std::lock_guard lock(mutex_);
  auto found = known_.extract({key, index});
  if (found.empty()) return std::nullopt;
  return std::move(found.mapped());
}

void FinishedWork::keep(const Finished& finished, std::string line) {
  lines_.insert_or_assign({finished.key, finished.what.index()}, std::move(line));
}

void FinishedWork::tell(const Finished& finished) {
  if (!on_line_ && !keep_) return;
  std::string line = finished_line(finished);
  const std::lock_guard lock(mutex_);
  if (on_line_) on_line_(line);
  if (keep_) keep(finished, std::move(line));
}

void FinishedWork::tell_again(const Finished& finished) {
  if (!keep_) return;
  std::string line = finished_line(finished);
  const std::lock_guard lock(mutex_);
  keep(finished, std::move(line));
}

std::vector<std::string> FinishedWork::lines() const {
  std::vector<std::string> lines;
  lines.reserve(lines_.size());
  for (const auto& [id, line] : lines_) lines.push_back(line);
  return lines;
}

void FinishedWork::require_all_taken() const {
  for (const auto& [id, finished] : known_) {
    if (!std::holds_alternative<FinishedMeasurement>(finished.what)) continue;
    throw base::input_error("has ", base::printable(to_string(id.first)),
                            ", which is not measured in this comparison");
  }
}

void restore_measurements(FinishedWork& work, const trace::Source& candidate,
                          const std::vector<Pair>& pairs, std::vector<report::Result>& results) {
  if (work.knows_nothing()) return;
  FinishedChecks checks(candidate);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    report::Result& result = results[i];
    if (!is_to_be_measured(result)) continue;
    auto finished = work.take<FinishedMeasurement>(pairs[i].key);
    if (!finished) continue;
    checks.require_fits(*finished, pairs[i]);
    if (!finished->unreadable.empty()) {
      result.outcome = verdict::Outcome::kUnreadable;
      result.reason = finished->unreadable;
    } else {
      report::Comparison comparison;
      comparison.measurement = std::move(finished->measurement);
      comparison.noise = std::move(finished->noise);
      if (const auto& place = comparison.measurement.largest_place) {
        result.largest_rank = place->rank;
        result.largest_local = place->local;
      }
      result.comparison = std::move(comparison);
    }
    work.tell_again({result.key, measured_of(result)});
  }
}

void tell_measurement(FinishedWork& work, const report::Result& result) {
  work.tell({result.key, measured_of(result)});
}

}  // namespace ttrace::engine
