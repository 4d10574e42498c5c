#include "engine/pair_work.h"

#include "base/error.h"
#include "compare/sections.h"

namespace ttrace::engine {

void settle(report::Comparison comparison, report::Result& result) {
  if (const auto& place = comparison.measurement.largest_place) {
    result.largest_rank = place->rank;
    result.largest_local = place->local;
  }
  result.comparison = std::move(comparison);
}

void settle(const std::string& unreadable, report::Result& result) {
  result.outcome = verdict::Outcome::kUnreadable;
  result.reason = unreadable;
}

PairWork::PairWork(const MeasuredSides& sides, const Pair& pair, bool exact)
    : sides_(sides),
      pair_(pair),
      sections_(compare::sections_of(pair.reference->shape)),
      measured_(sections_.size()),
      left_(sections_.size()) {
  if (exact) return;
  if (!pair.noise.empty()) {
    grid_ = sides.noise.grid_for(pair);
    noise_.resize(sections_.size());
    return;
  }
  std::uint64_t nothing_read = 0;
  known_noise_ = sides.noise.of(sides.reference, pair, nothing_read);
  if (known_noise_) grid_ = known_noise_->grid;
}

bool PairWork::needless(std::size_t section) {
  const std::lock_guard lock(mutex_);
  return !unreadable_.empty() && unreadable_.begin()->first < section;
}

void PairWork::measure_into_place(std::size_t section) {
  const compare::TensorRef reference(&sides_.reference, pair_.reference);
  if (!noise_.empty()) {
    noise_[section] =
        compare::measure_noise_section(reference, pair_.noise, *grid_, sections_[section]);
  }
  measured_[section] = compare::measure_section(reference, {&sides_.candidate, pair_.candidate},
                                                grid_ ? &*grid_ : nullptr, sections_[section]);
}

bool PairWork::measure(std::size_t section) {
  std::optional<std::string> problem;
  try {
    if (!needless(section)) measure_into_place(section);
  } catch (const base::Error& error) {
    if (error.kind() != base::ErrorKind::kInput) throw;
    problem = error.what();
  }
  const std::lock_guard lock(mutex_);
  if (problem) unreadable_.emplace(section, std::move(*problem));
  return --left_ == 0;
}

void PairWork::finish(report::Result& result) {
  if (!unreadable_.empty()) return settle(unreadable_.begin()->second, result);
  report::Comparison comparison;
  comparison.noise = std::move(known_noise_);
  std::uint64_t noise_bytes = 0;
  if (!noise_.empty()) {
    const compare::Noise noise = compare::put_together(noise_, *grid_);
    noise_bytes = noise.bytes_read;
    comparison.noise = tolerance::estimate_of(noise, *grid_);
  }
  comparison.measurement = compare::put_together(std::move(measured_));
  comparison.measurement.bytes_read += noise_bytes;
  settle(std::move(comparison), result);
}

}  // namespace ttrace::engine
