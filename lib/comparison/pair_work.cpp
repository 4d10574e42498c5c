#include "comparison/pair_work.h"

#include <utility>

#include "base/error.h"
#include "comparison/noise_runs.h"
#include "comparison/stored_before.h"
#include "measure/one_pass.h"
#include "measure/sections.h"

namespace ttrace::comparison {

PairWork::PairWork(const MeasuredSides& sides, const measure::Backend& backend,
                   const TensorComparison& pair)
    : backend_(backend),
      pair_(pair),
      reference_(&sides.reference, pair.reference),
      candidate_(&sides.candidate, pair.candidate),
      sections_(measure::sections_of(pair.reference->shape)),
      roundings_(roundings_of(pair)),
      measured_(sections_.size()),
      left_(sections_.size()) {
  if (pair.exact) return;
  if (pair.noise.empty()) {
    estimate_ = sides.noise.of(sides.reference, pair, noise_bytes_);
  } else {
    noise_.resize(sections_.size());
    summed_.resize(sections_.size());
    grid_ = sides.noise.grid_for(pair);
  }
}

bool PairWork::measure(std::size_t section) {
  if (noise_.empty()) {
    note_problem(section, problems_, [&] {
      measured_[section] = measured(section, estimate_ ? &estimate_->grid : nullptr);
    });
  } else {
    measure_with_noise(section);
  }
  const std::lock_guard lock(mutex_);
  return --left_ == 0;
}

void PairWork::start(measure::Batch& batch) {
  started_.emplace(backend_, reference_, candidate_, estimate_ ? &estimate_->grid : nullptr,
                   counts_as_equal());
  started_->add_to(batch, sections_[0]);
}

void PairWork::end() {
  measured_[0] = started_->take();
  started_.reset();
}

void PairWork::finish(TensorComparison& result) {
  if (!noise_.empty() && noise_problems_.empty()) use_noise();
  for (const auto* problems : {&noise_problems_, &problems_}) {
    if (problems->empty()) continue;
    return mark_unreadable(result, problems->begin()->second);
  }
  ComparedNumbers& numbers = result.comparison.emplace();
  numbers.measurement = measure::merge_sections(std::move(measured_));
  numbers.measurement.bytes_read += noise_bytes_;
  numbers.noise = std::move(estimate_);
}

measure::CountsAsEqual PairWork::counts_as_equal() const {
  return {nullptr, roundings_ ? &*roundings_ : nullptr};
}

measure::MeasuredSection PairWork::measured(std::size_t section, const measure::Grid* grid) const {
  return measure::measure_section(backend_, reference_, candidate_, grid, sections_[section],
                                  counts_as_equal());
}

void PairWork::measure_with_noise(std::size_t section) {
  const bool expected = is_reached_by_noise(pair_.key.kind);
  try {
    if (!roundings_) {
      auto both = measure::measure_with_noise(backend_, reference_, candidate_, pair_.noise, *grid_,
                                              sections_[section], expected);
      measured_[section] = std::move(both.pair);
      noise_[section] = std::move(both.noise);
      summed_[section] = both.by_grid ? Summed::kByGrid : Summed::kAsOneCell;
      return;
    }
  } catch (const base::InputError&) {
    // One of the files cannot be read. Measuring both separately below shows which: if a noise run
    // and the candidate both fail, the reason given is the noise run's.
  }
  note_problem(section, noise_problems_, [&] {
    noise_[section] = measure::measure_noise_section(backend_, reference_, pair_.noise, *grid_,
                                                     sections_[section]);
  });
  summed_[section] = expected ? Summed::kByGrid : Summed::kAsOneCell;
  note_problem(section, problems_, [&] {
    const measure::Grid single(grid_->shape(), tensor::Shape(grid_->shape().size(), 1));
    measured_[section] = measured(section, expected ? &*grid_ : &single);
  });
}

void PairWork::use_noise() {
  const measure::MeasuredNoise noise = measure::merge_sections(noise_, *grid_);
  noise_bytes_ = noise.bytes_read;
  estimate_ = judge::estimate_of(noise, *grid_);
  const Summed wanted = estimate_->grid.cells() > 1 ? Summed::kByGrid : Summed::kAsOneCell;
  for (std::size_t section = 0; section < sections_.size(); ++section) {
    if (grid_->cells() == 1 || summed_[section] == wanted) continue;
    note_problem(section, problems_,
                 [&] { measured_[section] = measured(section, &estimate_->grid); });
  }
}

void PairWork::note_problem(std::size_t section, std::map<std::size_t, std::string>& problems,
                            const std::function<void()>& work) {
  {
    const std::lock_guard lock(mutex_);
    if (!noise_problems_.empty() && &problems != &noise_problems_) return;
    if (!problems.empty() && problems.begin()->first < section) return;
  }
  try {
    work();
  } catch (const base::InputError& error) {
    const std::lock_guard lock(mutex_);
    problems.emplace(section, error.what());
  }
}

}  // namespace ttrace::comparison
