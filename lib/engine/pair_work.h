// One pair being measured, section by section if its tensors are so large that several threads
// measure them.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "compare/measure.h"
#include "compare/noise.h"
#include "engine/measure_pairs.h"

namespace ttrace::engine {

class PairWork {
 public:
  // All must outlive it.
  PairWork(const MeasuredSides& sides, const Pair& pair, bool exact);

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
  void finish(report::Result& result);

 private:
  template <typename Work>
  void note_problem(std::size_t section, std::map<std::size_t, std::string>& problems, Work work);

  const MeasuredSides& sides_;
  const Pair& pair_;
  std::vector<tensor::Box> sections_;
  std::optional<tolerance::NoiseEstimate> estimate_;
  std::vector<compare::MeasuredSection> measured_;
  std::vector<compare::NoiseSection> noise_;  // none without runs
  std::uint64_t noise_bytes_ = 0;

  std::mutex mutex_;
  std::size_t noise_left_;
  std::size_t left_;
  // Why sections cannot be read, of which the first one counts.
  std::map<std::size_t, std::string> noise_problems_;
  std::map<std::size_t, std::string> problems_;
};

}  // namespace ttrace::engine
