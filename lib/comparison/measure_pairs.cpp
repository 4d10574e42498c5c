#include "comparison/measure_pairs.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "comparison/noise_runs.h"
#include "comparison/pair_work.h"
#include "measure/measure.h"
#include "measure/noise.h"
#include "measure/sections.h"

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
    const measure::MeasuredNoise noise =
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

// Measures small pairs in one batch. False if something cannot be read: then none is measured, and
// each pair, measured on its own, finds its own reason.
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

// Lets records of equally laid out tensors share one list of which ranks have which boxes. Compares
// with the last one only, since tensors that are measured one after the other are alike.
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
    return std::make_unique<PairWork>(sides, *execution.backend, results[i]);
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
  const std::size_t pairs_per_batch = execution.backend->pairs_per_batch();
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

void mark_interrupted(TensorComparison& result) {
  result.outcome = judge::Outcome::kSkippedByRule;
  result.skipped = SkippedFor::kInterruption;
  result.reason = "interrupted";
  result.comparison.reset();
}

void mark_unreadable(TensorComparison& result, std::string why) {
  result.outcome = judge::Outcome::kUnreadable;
  result.reason = std::move(why);
  result.comparison.reset();
}

void mark_unmeasured(std::vector<TensorComparison>& results) {
  for (TensorComparison& result : results) {
    if (is_to_be_measured(result)) mark_interrupted(result);
  }
}

std::optional<answer::Interruption> interruption_of(const std::vector<TensorComparison>& results,
                                                    std::string missing) {
  answer::Interruption found;
  found.missing = std::move(missing);
  bool interrupted = false;
  for (const TensorComparison& result : results) {
    const bool left = result.skipped == SkippedFor::kInterruption;
    const bool done = result.comparison || result.outcome == judge::Outcome::kUnreadable;
    interrupted = interrupted || left;
    if (done) ++found.measured;
    if (left || done) ++found.of;
  }
  if (!interrupted && found.missing.empty()) return std::nullopt;
  return found;
}

}  // namespace ttrace::comparison
