#include "comparison/measure_pairs.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>

#include "base/error.h"
#include "comparison/noise_runs.h"
#include "measure/measure.h"
#include "measure/noise.h"
#include "measure/one_pass.h"
#include "measure/sections.h"
#include "measure/shared_batches.h"

namespace ttrace::comparison {

const judge::CalibratedTensor* calibrated(const judge::Calibration& calibration,
                                          const trace::TensorEntry& entry) {
  const auto found = calibration.tensors.find(entry.key);
  if (found == calibration.tensors.end()) return nullptr;
  const judge::CalibratedTensor& tensor = found->second;
  return tensor.shape == entry.shape && tensor.dtype == entry.dtype ? &tensor : nullptr;
}

std::optional<judge::NoiseEstimate> NoiseSource::of(const trace::Source& reference,
                                                    const Pair& pair,
                                                    std::uint64_t& bytes_read) const {
  if (!tensor::is_floating(pair.reference->dtype)) return std::nullopt;
  if (!pair.noise.empty()) {
    const measure::Grid grid = grid_for(pair);
    const measure::Noise noise =
        measure::measure_noise(backend_, {&reference, pair.reference}, pair.noise, grid);
    bytes_read += noise.bytes_read;
    return judge::estimate_of(noise, grid);
  }
  const auto* stored = std::get_if<layout::Stored>(&pair.reference->how);
  if (calibration_ == nullptr || stored == nullptr) return std::nullopt;
  const judge::CalibratedTensor* tensor = calibrated(*calibration_, *stored->entry);
  if (tensor == nullptr) return std::nullopt;
  return tensor->noise;
}

bool is_to_be_measured(const TensorComparison& result) {
  return result.outcome == judge::Outcome::kMatch && !result.comparison;
}

namespace {

// One pair being measured, section by section if its tensors are so large that several threads
// measure them.
class PairWork {
 public:
  // All must outlive it.
  PairWork(const MeasuredSides& sides, const measure::Backend& backend, const Pair& pair,
           bool exact)
      : backend_(backend),
        pair_(pair),
        reference_(&sides.reference, pair.reference),
        candidate_(&sides.candidate, pair.candidate),
        sections_(measure::sections_of(pair.reference->shape)),
        measured_(sections_.size()),
        left_(sections_.size()) {
    if (exact) return;
    if (pair.noise.empty()) {
      estimate_ = sides.noise.of(sides.reference, pair, noise_bytes_);
    } else {
      noise_.resize(sections_.size());
      summed_.resize(sections_.size());
      grid_ = sides.noise.grid_for(pair);
    }
  }

  // Measures one section; each is measured once, by any thread. Returns true for the last one to
  // end: that thread may then call finish().
  bool measure(std::size_t section) {
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

  // Whether it can share a batch with other pairs: it is measured in one go.
  bool may_share() const { return noise_.empty() && sections_.size() == 1; }

  // Reads the pair and adds its requests to a batch; end() takes the results once the batch is
  // finished. Throws an input error if a shard cannot be read: measure() says what that means.
  void start(measure::Batch& batch) {
    started_.emplace(backend_, reference_, candidate_, estimate_ ? &estimate_->grid : nullptr);
    started_->add_to(batch, sections_[0]);
  }
  void end() {
    measured_[0] = started_->take();
    started_.reset();
  }
  // Forgets what was started.
  void restart() { started_.reset(); }

  // The result is the same whichever thread measured what, and in what order.
  void finish(TensorComparison& result) {
    if (!noise_.empty() && noise_problems_.empty()) use_noise();
    for (const auto* problems : {&noise_problems_, &problems_}) {
      if (problems->empty()) continue;
      result.outcome = judge::Outcome::kUnreadable;
      result.reason = problems->begin()->second;
      return;
    }
    ComparedNumbers& numbers = result.comparison.emplace();
    numbers.measurement = measure::merge_sections(std::move(measured_));
    numbers.measurement.bytes_read += noise_bytes_;
    numbers.noise = std::move(estimate_);
  }

 private:
  measure::MeasuredSection measured(std::size_t section, const measure::Grid* grid) const {
    return measure::measure_section(backend_, reference_, candidate_, grid, sections_[section]);
  }

  // The noise decides by which cells the pair is summed, which is known when all of it is measured.
  // Until then a pair is summed as its kind and its first elements let expect.
  void measure_with_noise(std::size_t section) {
    const bool expected = is_reached_by_noise(pair_.key.kind);
    try {
      auto both = measure::measure_with_noise(backend_, reference_, candidate_, pair_.noise, *grid_,
                                              sections_[section], expected);
      measured_[section] = std::move(both.pair);
      noise_[section] = std::move(both.noise);
      summed_[section] = both.by_grid ? Summed::kByGrid : Summed::kAsOneCell;
      return;
    } catch (const base::InputError&) {
      // One of the files cannot be read. Measuring both apart below shows which: where a noise run
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

  // Measures the pair again in sections where it was summed by other cells.
  void use_noise() {
    const measure::Noise noise = measure::merge_sections(noise_, *grid_);
    noise_bytes_ = noise.bytes_read;
    estimate_ = judge::estimate_of(noise, *grid_);
    const Summed wanted = estimate_->grid.cells() > 1 ? Summed::kByGrid : Summed::kAsOneCell;
    for (std::size_t section = 0; section < sections_.size(); ++section) {
      if (grid_->cells() == 1 || summed_[section] == wanted) continue;
      note_problem(section, problems_,
                   [&] { measured_[section] = measured(section, &estimate_->grid); });
    }
  }

  // Does `work` unless a problem that counts more is known already: that of noise, or of an earlier
  // section.
  template <typename Work>
  void note_problem(std::size_t section, std::map<std::size_t, std::string>& problems, Work work) {
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

  const measure::Backend& backend_;
  const Pair& pair_;
  measure::TensorRef reference_;
  measure::TensorRef candidate_;
  std::vector<tensor::Box> sections_;
  std::optional<judge::NoiseEstimate> estimate_;
  std::vector<measure::MeasuredSection> measured_;
  std::optional<measure::SectionMeasuring> started_;
  enum class Summed : std::uint8_t { kByGrid, kAsOneCell };
  std::vector<Summed> summed_;                // by section
  std::vector<measure::NoiseSection> noise_;  // none without runs
  std::optional<measure::Grid> grid_;         // of the noise
  std::uint64_t noise_bytes_ = 0;

  std::mutex mutex_;
  std::size_t left_;
  // Why sections cannot be read; the first one is reported.
  std::map<std::size_t, std::string> noise_problems_;
  std::map<std::size_t, std::string> problems_;
};

struct Task {
  std::size_t pair = 0;
  std::size_t section = 0;
  std::uint64_t elements = 0;
};

// Sorts the pairs into the order in which the reference was written, as far as its manifest tells,
// so that files are read from front to back.
std::vector<std::size_t> in_order_of_files(const std::vector<TensorComparison>& results) {
  // Sorted apart from the records, which are large and lie far from each other.
  std::vector<std::tuple<std::uint64_t, std::optional<std::uint64_t>, std::size_t>> places;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!is_to_be_measured(results[i])) continue;
    places.emplace_back(results[i].key.step, results[i].reference->order, i);
  }
  std::sort(places.begin(), places.end());
  std::vector<std::size_t> order;
  order.reserve(places.size());
  for (const auto& [step, written, i] : places) order.push_back(i);
  return order;
}

// Returns where each group of consecutive tasks begins, and the number of tasks. A thread takes a
// group: small tensors that lie side by side in their file are then read ahead by one thread, and
// are not read by all. Groups are many more than threads, so that all have work until the end.
//
// Groups are larger where their pairs share a batch.
std::vector<std::size_t> grouped(const std::vector<Task>& tasks, unsigned threads,
                                 std::size_t pairs_per_batch) {
  const bool shares = pairs_per_batch > 1;
  const std::size_t most_tasks = shares ? pairs_per_batch : 256;
  const std::size_t groups_per_thread = shares ? 2 : 16;
  const std::uint64_t most_elements = (shares ? 16 : 1) * measure::kReadElements;
  const std::size_t most =
      std::clamp<std::size_t>(tasks.size() / (groups_per_thread * threads), 1, most_tasks);
  std::vector<std::size_t> begins;
  std::size_t count = 0;
  std::uint64_t elements = 0;
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    elements += tasks[t].elements;
    if (begins.empty() || ++count == most || elements > most_elements) {
      begins.push_back(t);
      count = 0;
      elements = tasks[t].elements;
    }
  }
  begins.push_back(tasks.size());
  return begins;
}

// Bytes read to measure `elements` elements of the pair.
std::uint64_t bytes_of(const Pair& pair, std::uint64_t elements) {
  const std::uint64_t reference = tensor::element_bytes(pair.reference->dtype);
  const std::uint64_t runs = pair.noise.size();
  return elements * (reference * (1 + runs) + tensor::element_bytes(pair.candidate->dtype));
}

// Measures small pairs in one batch. False if something cannot be read, which each pair then finds
// out for itself: none is measured.
bool measure_together(const measure::Backend& backend, std::span<PairWork* const> works) {
  // Destroyed first: it refers to the works.
  const std::unique_ptr<measure::Batch> batch = backend.new_batch();
  try {
    for (PairWork* const work : works) work->start(*batch);
    batch->finish();
  } catch (const base::InputError&) {
    return false;
  }
  for (PairWork* const work : works) work->end();
  return true;
}

// Lets the records of equally laid out tensors share what says which ranks have which boxes.
// Compares with what came last, since tensors that are measured one after the other are alike.
class OwnerPool {
 public:
  void share(measure::Measurement& measurement) {
    const std::lock_guard lock(mutex_);
    for (measure::BlockStats& block : measurement.blocks) {
      const auto known = std::find_if(kept_.begin(), kept_.end(),
                                      [&](const Owner& owner) { return *owner == *block.owner; });
      if (known != kept_.end()) {
        block.owner = *known;
        continue;
      }
      kept_.push_front(block.owner);
      if (kept_.size() > kMostKept) kept_.pop_back();
    }
  }

 private:
  using Owner = base::SharedValue<measure::RankBoxes>;

  static constexpr std::size_t kMostKept = 64;

  std::mutex mutex_;
  std::deque<Owner> kept_;
};

void report_measured(base::Progress& progress, const TensorComparison& result) {
  if (!result.comparison) return;
  progress.measured(to_string(result.key), relative_error(result.comparison->measurement));
}

}  // namespace

void measure_pairs(const MeasuredSides& sides, const measure::ExecutionContext& execution,
                   std::vector<TensorComparison>& results, const WorkHooks& hooks) {
  const auto work_of = [&](std::size_t i) {
    return std::make_unique<PairWork>(sides, *execution.backend, results[i], results[i].exact);
  };
  std::vector<Task> tasks;
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
    if (sections.size() > 1) works[i] = work_of(i);
  }
  OwnerPool owners;
  // A pair of one section belongs to the thread that has its group.
  const auto begin = [&](const Task& task) -> PairWork& {
    if (!works[task.pair]) works[task.pair] = work_of(task.pair);
    return *works[task.pair];
  };
  const auto measure_task = [&](const Task& task, bool is_measured) {
    const auto [i, section, elements] = task;
    if (hooks.stopped() && !is_measured) return;
    const bool last = is_measured || begin(task).measure(section);
    if (hooks.progress != nullptr) hooks.progress->advance(bytes_of(results[i], elements));
    if (!last) return;
    works[i]->finish(results[i]);
    works[i].reset();
    if (auto& numbers = results[i].comparison) owners.share(numbers->measurement);
    if (hooks.progress != nullptr) report_measured(*hooks.progress, results[i]);
    if (hooks.finished) hooks.finished(i);
  };
  const std::size_t pairs_per_batch = measure::pairs_per_batch(*execution.backend);
  const auto measured_together = [&](std::span<const Task> group) {
    std::vector<bool> together(group.size(), false);
    if (pairs_per_batch == 1 || hooks.stopped()) return together;
    std::vector<PairWork*> shared;
    for (std::size_t t = 0; t < group.size(); ++t) {
      PairWork& work = begin(group[t]);
      together[t] = work.may_share();
      if (together[t]) shared.push_back(&work);
    }
    if (!measure_together(*execution.backend, shared)) {
      for (PairWork* const work : shared) work->restart();
      together.assign(group.size(), false);
    }
    return together;
  };
  const std::vector<std::size_t> begins = grouped(tasks, execution.thread_count(), pairs_per_batch);
  execution.parallel_for(begins.size() - 1, [&](std::size_t number) {
    const std::span<const Task> group =
        std::span(tasks).subspan(begins[number], begins[number + 1] - begins[number]);
    const std::vector<bool> together = measured_together(group);
    for (std::size_t t = 0; t < group.size(); ++t) measure_task(group[t], together[t]);
  });
}

namespace {

constexpr std::string_view kInterrupted = "interrupted";

}  // namespace

void mark_interrupted(TensorComparison& result) {
  result.outcome = judge::Outcome::kSkippedByRule;
  result.reason = kInterrupted;
  result.comparison.reset();
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
    const bool left =
        result.outcome == judge::Outcome::kSkippedByRule && result.reason == kInterrupted;
    const bool done = result.comparison || result.outcome == judge::Outcome::kUnreadable;
    interrupted = interrupted || left;
    if (done) ++found.measured;
    if (left || done) ++found.of;
  }
  if (!interrupted) return std::nullopt;
  return found;
}

}  // namespace ttrace::comparison
