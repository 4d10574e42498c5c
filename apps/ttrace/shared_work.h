// Comparisons that are divided among processes (--part, mpirun), and comparisons that continue
// where an earlier process stopped (--resume).
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "comparison.h"

namespace ttrace::app {

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

}  // namespace ttrace::app
