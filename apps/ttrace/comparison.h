// A comparison as requested by flags: opened, run as a whole, divided among processes (--part,
// mpirun), or continued where an earlier process stopped (--resume). Shared by `compare` and
// `report merge`.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "answer_output.h"
#include "comparison/division.h"
#include "engine/compare_traces.h"
#include "inputs.h"
#include "layout/map_rules.h"

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

struct SharedWorkFlags {
  std::string resume;  // a file, or empty
  std::string part;    // "2/8", or empty
  std::string mpi = "auto";

  void add_to(CLI::App& command);
};

// Runs the comparison, or the share that the flags select. SIGINT and SIGTERM end it early with a
// report of what is known; a second signal ends the process at once. `for_merge`: with --part,
// includes in the report what a merge needs.
comparison::CompareReport run_comparison(const Comparison& comparison, const SharedWorkFlags& flags,
                                         bool for_merge);

// Appends to `why` of an interrupted comparison how to continue it.
void add_resume_hint(const SharedWorkFlags& flags, comparison::CompareReport& report);

// What `compare` and `report merge` write.
Answer answer_of(const comparison::CompareReport& report, bool all_slices);

}  // namespace ttrace::app
