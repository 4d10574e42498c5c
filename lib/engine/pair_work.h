// One pair whose tensors are so large that several threads measure them, section by section.
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

// Puts a comparison, or why there is none, into `result`.
void settle(report::Comparison comparison, report::Result& result);
void settle(const std::string& unreadable, report::Result& result);

class PairWork {
 public:
  // All must outlive it.
  PairWork(const MeasuredSides& sides, const Pair& pair, bool exact);

  // At least one.
  const std::vector<tensor::Box>& sections() const { return sections_; }

  // Measures one section; each is measured once, by any thread. True for the last one to end:
  // finish() may be called then, by that thread.
  bool measure(std::size_t section);

  // The same whichever thread measured what, and in what order.
  void finish(report::Result& result);

 private:
  void measure_into_place(std::size_t section);
  bool needless(std::size_t section);

  const MeasuredSides& sides_;
  const Pair& pair_;
  std::vector<tensor::Box> sections_;
  std::optional<tolerance::NoiseEstimate> known_noise_;  // by a calibration
  std::optional<compare::Grid> grid_;
  std::vector<compare::MeasuredSection> measured_;
  std::vector<compare::NoiseSection> noise_;  // none without runs

  std::mutex mutex_;
  std::size_t left_;
  std::map<std::size_t, std::string> unreadable_;  // by section; only the first one counts
};

}  // namespace ttrace::engine
