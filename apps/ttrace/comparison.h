// A comparison as requested by flags, opened and ready to run. Shared by `compare` and `report
// merge`.
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
  bool all_slices = false;
  bool common = false;

  // Throws a usage error if `output` would overwrite one of the files that are read.
  void require_not_input(const std::string& output) const;
};

// The flags that request the comparison `id`.
ComparisonFlags flags_of(const comparison::ComparisonId& id);

class Comparison {
 public:
  // `flags` must outlive this. Throws an input error naming the file that cannot be read.
  explicit Comparison(const ComparisonFlags& flags);

  // What was requested, and the current state of the files.
  comparison::ComparisonId id() const;

  // Draft rules that map the names of one implementation of a model to those of another.
  layout::MapFile map_starter() const;

  comparison::CompareReport run(comparison::Checkpoint* work, comparison::WorkDivision division,
                                const std::atomic<bool>* stop) const;

 private:
  const ComparisonFlags& flags_;
  JudgedPair pair_;
  std::unique_ptr<trace::Source> truth_;
};

}  // namespace ttrace::app
