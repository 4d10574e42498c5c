#include "engine/pair_work.h"

#include "base/error.h"
#include "compare/sections.h"

namespace ttrace::engine {
namespace {

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

}  // namespace

PairWork::PairWork(const MeasuredSides& sides, const Pair& pair, bool exact)
    : sides_(sides),
      pair_(pair),
      sections_(compare::sections_of(pair.reference->shape)),
      measured_(sections_.size()),
      noise_left_(sections_.size()),
      left_(sections_.size()) {
  if (exact) return;
  if (!pair.noise.empty()) {
    noise_.resize(sections_.size());
    return;
  }
  estimate_ = sides.noise.of(sides.reference, pair, noise_bytes_);
}

// The problem of a later section does not count, so it need not be looked for.
template <typename Work>
void PairWork::note_problem(std::size_t section, std::map<std::size_t, std::string>& problems,
                            Work work) {
  {
    const std::lock_guard lock(mutex_);
    if (!noise_problems_.empty() && &problems != &noise_problems_) return;
    if (!problems.empty() && problems.begin()->first < section) return;
  }
  try {
    work();
  } catch (const base::Error& error) {
    if (error.kind() != base::ErrorKind::kInput) throw;
    const std::lock_guard lock(mutex_);
    problems.emplace(section, error.what());
  }
}

void PairWork::measure_noise(std::size_t section) {
  const compare::Grid grid = sides_.noise.grid_for(pair_);
  note_problem(section, noise_problems_, [&] {
    noise_[section] = compare::measure_noise_section({&sides_.reference, pair_.reference},
                                                     pair_.noise, grid, sections_[section]);
  });
  const std::lock_guard lock(mutex_);
  if (--noise_left_ > 0 || !noise_problems_.empty()) return;
  const compare::Noise noise = compare::put_together(noise_, grid);
  noise_bytes_ = noise.bytes_read;
  estimate_ = tolerance::estimate_of(noise, grid);
}

bool PairWork::measure(std::size_t section) {
  if (!noise_.empty() && sections() == 1) measure_noise(section);
  note_problem(section, problems_, [&] {
    measured_[section] = compare::measure_section(
        {&sides_.reference, pair_.reference}, {&sides_.candidate, pair_.candidate},
        estimate_ ? &estimate_->grid : nullptr, sections_[section]);
  });
  const std::lock_guard lock(mutex_);
  return --left_ == 0;
}

void PairWork::finish(report::Result& result) {
  for (const auto* problems : {&noise_problems_, &problems_}) {
    if (!problems->empty()) return settle(problems->begin()->second, result);
  }
  report::Comparison comparison;
  comparison.measurement = compare::put_together(std::move(measured_));
  comparison.measurement.bytes_read += noise_bytes_;
  comparison.noise = std::move(estimate_);
  settle(std::move(comparison), result);
}

}  // namespace ttrace::engine
