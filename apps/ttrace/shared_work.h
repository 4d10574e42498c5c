// A comparison that several processes share, or one that goes on where another was stopped.
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

// Runs the comparison as far as the flags say. SIGINT and SIGTERM end it with what is known, a
// second one at once. `for_merge`: with --part, the report gets what a merge needs.
comparison::CompareReport run_comparison(const Comparison& comparison, const SharedWorkFlags& flags,
                                         bool for_merge);

// Of an interrupted comparison, in `why`.
void add_resume_hint(const SharedWorkFlags& flags, comparison::CompareReport& report);

}  // namespace ttrace::app
