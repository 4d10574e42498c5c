// One pair of a comparison while it is measured, section by section.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "comparison/measure_pairs.h"
#include "comparison/tensor_comparison.h"
#include "judge/noise_rule.h"
#include "measure/backend.h"
#include "measure/measure.h"
#include "measure/noise.h"

namespace ttrace::comparison {

// Tensors may be so large that several threads measure them, a section each.
class PairWork {
 public:
  // All must outlive it.
  PairWork(const MeasuredSides& sides, const measure::Backend& backend,
           const TensorComparison& pair);

  // Measures one section; each is measured once, by any thread. Returns true for the last one to
  // end: that thread may then call finish().
  bool measure(std::size_t section);

  // Whether it can share a batch with other pairs: it is measured in one go.
  bool may_share() const { return noise_.empty() && sections_.size() == 1; }

  // Reads the pair and adds its requests to a batch; end() takes the results once the batch is
  // finished. Throws an input error if a shard cannot be read: measure() says what that means.
  void start(measure::Batch& batch);
  void end();
  // Forgets what was started.
  void restart() { started_.reset(); }

  // The result is the same whichever thread measured what, and in what order.
  void finish(TensorComparison& result);

 private:
  measure::CountsAsEqual counts_as_equal() const;
  measure::MeasuredSection measured(std::size_t section, const measure::Grid* grid) const;
  // The noise decides by which cells the pair is summed, but it is known only when all of it is
  // measured. Until then the kind of the pair and its first elements decide.
  void measure_with_noise(std::size_t section);
  // Measures the pair again in sections where it was summed by other cells.
  void use_noise();
  // Does `work` unless a problem is known already that takes precedence: one of noise, or of an
  // earlier section.
  void note_problem(std::size_t section, std::map<std::size_t, std::string>& problems,
                    const std::function<void()>& work);

  const measure::Backend& backend_;
  const Pair& pair_;
  measure::TensorRef reference_;
  measure::TensorRef candidate_;
  std::vector<tensor::Box> sections_;
  std::optional<measure::Roundings> roundings_;
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

}  // namespace ttrace::comparison
