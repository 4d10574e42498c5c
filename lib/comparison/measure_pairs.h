// Measures every pair of a comparison that needs it, on several threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "comparison/noise_source.h"
#include "comparison/pairing.h"
#include "comparison/result.h"
#include "measure/execution_context.h"
#include "measure/measure.h"
#include "measure/noise.h"
#include "trace/source.h"

namespace ttrace::comparison {

// Callbacks from, and cancellation of, a long-running pass.
struct WorkHooks {
  // Pair i is done; called from any thread. May be null.
  std::function<void(std::size_t i)> finished = nullptr;
  // May be null.
  base::Progress* progress = nullptr;
  // Once it is true nothing further is begun, of a large pair no further section. May be null.
  const std::atomic<bool>* stop = nullptr;

  bool stopped() const { return stop != nullptr && stop->load(std::memory_order_relaxed); }
};

struct MeasuredSides {
  const trace::Source& reference;
  const trace::Source& candidate;
  const NoiseSource& noise;
};

// Its outcome is kMatch, and it has no comparison yet.
bool is_to_be_measured(const TensorComparison& result);

// Measures the records for which is_to_be_measured() holds: they get a comparison, become
// unreadable with the reason, or stay as they are if `hooks` stop the work before. The numbers are
// the same for every execution context.
void measure_pairs(const MeasuredSides& sides, const measure::ExecutionContext& execution,
                   std::vector<TensorComparison>& results, const WorkHooks& hooks = {});

// One pair being measured, section by section if its tensors are so large that several threads
// measure them.

class PairWork {
 public:
  // All must outlive it.
  PairWork(const MeasuredSides& sides, const measure::Backend& backend, const Pair& pair,
           bool exact);

  // At least one.
  std::size_t sections() const { return sections_.size(); }
  // Its noise runs are measured before it, and apart: by which cells the pair is summed depends on
  // what they say. With one section alone, measure() does it.
  bool has_noise_sections() const { return !noise_.empty() && sections() > 1; }

  // Measures the noise runs in one section; each is measured once, by any thread, and all before
  // measure().
  void measure_noise(std::size_t section);

  // Measures one section; each is measured once, by any thread. True for the last one to end:
  // finish() may be called then, by that thread.
  bool measure(std::size_t section);

  // The same whichever thread measured what, and in what order.
  void finish(TensorComparison& result);

 private:
  template <typename Work>
  void note_problem(std::size_t section, std::map<std::size_t, std::string>& problems, Work work);

  const MeasuredSides& sides_;
  const measure::Backend& backend_;
  const Pair& pair_;
  std::vector<tensor::Box> sections_;
  std::optional<judge::NoiseEstimate> estimate_;
  std::vector<measure::MeasuredSection> measured_;
  std::vector<measure::NoiseSection> noise_;  // none without runs
  std::uint64_t noise_bytes_ = 0;

  std::mutex mutex_;
  std::size_t noise_left_;
  std::size_t left_;
  // Why sections cannot be read, of which the first one counts.
  std::map<std::size_t, std::string> noise_problems_;
  std::map<std::size_t, std::string> problems_;
};

// Makes the record skipped, because the comparison was interrupted, and drops its measurement.
void mark_interrupted(TensorComparison& result);

// Marks those that are still to be measured.
void mark_unmeasured(std::vector<TensorComparison>& results);

// Returns how far an interrupted comparison came; nothing if no record is marked.
std::optional<Interruption> interruption_of(const std::vector<TensorComparison>& results);

}  // namespace ttrace::comparison
