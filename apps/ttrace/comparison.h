// A comparison as it was asked for, opened and ready to run: what `compare` and `report merge` have
// in common.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "comparison/division.h"
#include "engine/compare_traces.h"
#include "inputs.h"
#include "layout/map_file.h"

namespace ttrace::app {

struct ComparisonFlags {
  JudgedPairFlags pair;
  std::string truth;
  bool all_slices = false;  // as --all-slices
  bool common = false;

  // Throws a usage error if `output` would overwrite one of the files that are read.
  void require_not_input(const std::string& output) const;
};

// Flags that ask for the comparison that `id` tells of.
ComparisonFlags flags_of(const comparison::ComparisonId& id);

class Comparison {
 public:
  // `flags` must outlive this. Throws an input error naming the file that cannot be read.
  explicit Comparison(const ComparisonFlags& flags);

  // What is asked for, and what the files are now.
  comparison::ComparisonId id() const;

  // Rules to start from where the two are of two implementations of one model.
  layout::MapFile map_starter() const;

  comparison::CompareReport run(comparison::FinishedWork* work, comparison::WorkDivision division,
                                const std::atomic<bool>* stop) const;

 private:
  const ComparisonFlags& flags_;
  JudgedPair pair_;
  std::unique_ptr<trace::Source> truth_;
};

}  // namespace ttrace::app
