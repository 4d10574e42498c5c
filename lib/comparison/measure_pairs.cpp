#include "comparison/measure_pairs.h"

#include <algorithm>
#include <memory>
#include <string_view>

#include "base/error.h"
#include "measure/sections.h"

namespace ttrace::comparison {
namespace {

struct Task {
  std::size_t pair = 0;
  std::size_t section = 0;
  std::uint64_t elements = 0;
};

// In the order in which the reference was written, as far as its manifest tells: what is read one
// after the other then lies so in the files.
std::vector<std::size_t> in_order_of_files(const std::vector<TensorComparison>& results) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (is_to_be_measured(results[i])) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const trace::TensorKey& x = results[a].key;
    const trace::TensorKey& y = results[b].key;
    if (x.step != y.step) return x.step < y.step;
    return results[a].reference->order < results[b].reference->order;
  });
  return order;
}

// Of all that is read to measure a part of `elements` of the pair.
std::uint64_t bytes_of(const Pair& pair, std::uint64_t elements) {
  const std::uint64_t reference = tensor::element_bytes(pair.reference->dtype);
  const std::uint64_t runs = pair.noise.size();
  return elements * (reference * (1 + runs + (runs > 0 ? 1 : 0)) +
                     tensor::element_bytes(pair.candidate->dtype));
}

void tell(base::Progress& progress, const TensorComparison& result) {
  if (!result.comparison) return;
  progress.measured(to_string(result.key), relative_error(result.comparison->measurement));
}

}  // namespace

bool is_to_be_measured(const TensorComparison& result) {
  return result.outcome == judge::Outcome::kMatch && !result.comparison;
}

void measure_pairs(const MeasuredSides& sides, const measure::ExecutionContext& execution,
                   std::vector<TensorComparison>& results, const WorkHooks& hooks) {
  const auto work_of = [&](std::size_t i) {
    return std::make_unique<PairWork>(sides, *execution.backend, results[i], results[i].exact);
  };
  std::vector<Task> tasks;
  std::vector<Task> noise_tasks;
  std::vector<std::unique_ptr<PairWork>> works(results.size());
  for (const std::size_t i : in_order_of_files(results)) {
    if (hooks.progress != nullptr) {
      const tensor::Box all = tensor::whole(results[i].reference->shape);
      hooks.progress->expect(bytes_of(results[i], tensor::volume(all)));
    }
    const std::vector<tensor::Box> sections = measure::sections_of(results[i].reference->shape);
    for (std::size_t section = 0; section < sections.size(); ++section) {
      tasks.push_back({i, section, tensor::volume(sections[section])});
    }
    if (sections.size() == 1) continue;
    works[i] = work_of(i);
    for (std::size_t section = 0; section < sections.size(); ++section) {
      if (works[i]->has_noise_sections()) noise_tasks.push_back({i, section, 0});
    }
  }
  execution.parallel_for(noise_tasks.size(), [&](std::size_t t) {
    if (!hooks.stopped()) works[noise_tasks[t].pair]->measure_noise(noise_tasks[t].section);
  });
  execution.parallel_for(tasks.size(), [&](std::size_t t) {
    const auto [i, section, elements] = tasks[t];
    if (hooks.stopped()) return;
    // Of one section, and so one thread's own.
    if (!works[i]) works[i] = work_of(i);
    const bool last = works[i]->measure(section);
    if (hooks.progress != nullptr) hooks.progress->advance(bytes_of(results[i], elements));
    if (!last) return;
    works[i]->finish(results[i]);
    works[i].reset();
    if (hooks.progress != nullptr) tell(*hooks.progress, results[i]);
    if (hooks.finished) hooks.finished(i);
  });
}

namespace {

void settle(Comparison comparison, TensorComparison& result) {
  if (const auto& place = comparison.measurement.largest_place) {
    result.largest_rank = place->rank;
    result.largest_local = place->local;
  }
  result.comparison = std::move(comparison);
}

void settle(const std::string& unreadable, TensorComparison& result) {
  result.outcome = judge::Outcome::kUnreadable;
  result.reason = unreadable;
}

}  // namespace

PairWork::PairWork(const MeasuredSides& sides, const measure::Backend& backend, const Pair& pair,
                   bool exact)
    : sides_(sides),
      backend_(backend),
      pair_(pair),
      sections_(measure::sections_of(pair.reference->shape)),
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
  } catch (const base::InputError& error) {
    const std::lock_guard lock(mutex_);
    problems.emplace(section, error.what());
  }
}

void PairWork::measure_noise(std::size_t section) {
  const measure::Grid grid = sides_.noise.grid_for(pair_);
  note_problem(section, noise_problems_, [&] {
    noise_[section] = measure::measure_noise_section(backend_, {&sides_.reference, pair_.reference},
                                                     pair_.noise, grid, sections_[section]);
  });
  const std::lock_guard lock(mutex_);
  if (--noise_left_ > 0 || !noise_problems_.empty()) return;
  const measure::Noise noise = measure::merge_sections(noise_, grid);
  noise_bytes_ = noise.bytes_read;
  estimate_ = judge::estimate_of(noise, grid);
}

bool PairWork::measure(std::size_t section) {
  if (!noise_.empty() && sections() == 1) measure_noise(section);
  note_problem(section, problems_, [&] {
    measured_[section] = measure::measure_section(
        backend_, {&sides_.reference, pair_.reference}, {&sides_.candidate, pair_.candidate},
        estimate_ ? &estimate_->grid : nullptr, sections_[section]);
  });
  const std::lock_guard lock(mutex_);
  return --left_ == 0;
}

void PairWork::finish(TensorComparison& result) {
  for (const auto* problems : {&noise_problems_, &problems_}) {
    if (!problems->empty()) return settle(problems->begin()->second, result);
  }
  Comparison comparison;
  comparison.measurement = measure::merge_sections(std::move(measured_));
  comparison.measurement.bytes_read += noise_bytes_;
  comparison.noise = std::move(estimate_);
  settle(std::move(comparison), result);
}

namespace {

constexpr std::string_view kInterrupted = "interrupted";

bool is_interrupted(const TensorComparison& result) {
  return result.outcome == judge::Outcome::kSkippedByRule && result.reason == kInterrupted;
}

}  // namespace

void mark_interrupted(TensorComparison& result) {
  result.outcome = judge::Outcome::kSkippedByRule;
  result.reason = kInterrupted;
  result.comparison.reset();
  result.largest_rank.reset();
  result.largest_local.clear();
}

void mark_unmeasured(std::vector<TensorComparison>& results) {
  for (TensorComparison& result : results) {
    if (is_to_be_measured(result)) mark_interrupted(result);
  }
}

std::optional<Interruption> interruption_of(const std::vector<TensorComparison>& results) {
  Interruption found;
  bool interrupted = false;
  for (const TensorComparison& result : results) {
    const bool left = is_interrupted(result);
    const bool done = result.comparison || result.outcome == judge::Outcome::kUnreadable;
    interrupted = interrupted || left;
    if (done) ++found.measured;
    if (left || done) ++found.of;
  }
  if (!interrupted) return std::nullopt;
  return found;
}

}  // namespace ttrace::comparison
