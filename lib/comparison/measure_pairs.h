// Measures every pair of a comparison that needs it, on several threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "base/log.h"
#include "comparison/pairing.h"
#include "comparison/result.h"
#include "judge/calibration.h"
#include "judge/noise_rule.h"
#include "measure/backend.h"
#include "trace/source.h"

namespace ttrace::comparison {

// The calibration's entry for a tensor of the reference, or null if shape or type differ.
const judge::CalibratedTensor* calibrated(const judge::Calibration& calibration,
                                          const trace::TensorEntry& entry);

// Gets the noise of a tensor from perturbed runs, or from a calibration made of such runs.
class NoiseSource {
 public:
  // `calibration` may be null; it and the backend must outlive the source.
  NoiseSource(const trace::Manifest& reference, const judge::Calibration* calibration,
              const measure::Backend& backend)
      : plan_(reference.tensors), calibration_(calibration), backend_(backend) {}

  // Measures the pair's perturbed runs; without any, returns the calibration's noise of the
  // reference's tensor. Returns nothing for integers, for a tensor that the calibration does not
  // have in this shape and type, and for one that is composed of several stored tensors. Adds the
  // number of bytes read to `bytes_read`. Throws an input error if a shard cannot be read.
  std::optional<judge::NoiseEstimate> of(const trace::Source& reference, const Pair& pair,
                                         std::uint64_t& bytes_read) const;

  // The cells by which perturbed runs of the tensor are summed.
  measure::Grid grid_for(const Pair& pair) const { return plan_.grid_for(pair.reference->shape); }

 private:
  judge::GridPlan plan_;
  const judge::Calibration* calibration_;
  const measure::Backend& backend_;
};

// Callbacks from, and cancellation of, a long-running pass.
struct WorkHooks {
  // Pair i is done; called from any thread. May be null.
  std::function<void(std::size_t i)> finished = nullptr;
  // May be null.
  base::Progress* progress = nullptr;
  // Once it is true, no further pair and no further section of a large pair begins. May be null.
  const std::atomic<bool>* stop = nullptr;

  bool stopped() const { return stop != nullptr && stop->load(std::memory_order_relaxed); }
};

struct MeasuredSides {
  const trace::Source& reference;
  const trace::Source& candidate;
  const NoiseSource& noise;
};

// Whether its outcome is kMatch and it has no comparison yet.
bool is_to_be_measured(const TensorComparison& result);

// Measures the records for which is_to_be_measured() holds: they get a comparison, become
// unreadable with the reason, or stay as they are if `hooks` stop the work before. The numbers are
// the same for every execution context.
void measure_pairs(const MeasuredSides& sides, const measure::ExecutionContext& execution,
                   std::vector<TensorComparison>& results, const WorkHooks& hooks = {});

// Makes the record skipped, because the comparison was interrupted, and drops its measurement.
void mark_interrupted(TensorComparison& result);

// Makes the record unreadable, and drops its measurement.
void mark_unreadable(TensorComparison& result, std::string why);

// Marks those that are still to be measured.
void mark_unmeasured(std::vector<TensorComparison>& results);

// Returns how far an interrupted comparison came; nothing if no record is marked and no part is
// `missing`.
std::optional<answer::Interruption> interruption_of(const std::vector<TensorComparison>& results,
                                                    std::string missing = "");

}  // namespace ttrace::comparison
