// The story of `ttrace localize`: explains each finding of a comparison by which tensors around it
// follow from their own inputs.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "comparison/checkpoint/checkpoint.h"
#include "comparison/division.h"
#include "layout/map_rules.h"
#include "localize/localization.h"
#include "measure/backend.h"
#include "specification/specification.h"
#include "trace/source.h"

namespace ttrace::engine {

struct LocalizeOptions {
  measure::ExecutionContext execution;
  const specification::Specification* specification = nullptr;
  std::string specification_file = "";
  // The specification of the candidate's code, to be compared with the other one.
  const specification::Specification* candidate_specification = nullptr;
  std::string candidate_specification_file = "";
  // The map of the comparison: both specifications are compared under the names it gives them.
  const layout::MapRules* map = nullptr;
  std::vector<std::string> layers;  // globs over modules to check besides the findings'
  bool all_layers = false;
  std::string run_argument;  // the candidate as the user wrote it, for the next command
  std::string plan_file;     // make a plan of a second pair of runs, to be written there; or empty
  // Divides the judging of the modules. A part leaves explanations to the merge, and so does all of
  // `localize` if the comparison is of a part.
  comparison::WorkDivision division = {};
  std::string unfinished = "";  // why the comparison is not of all tensors, or empty
  // What is already measured, and where new measurements are recorded; or null.
  comparison::Checkpoint* work = nullptr;
  const std::atomic<bool>* stop = nullptr;  // once true, the report covers what is known
};

// `compared` is the report of comparing these two traces. Throws an input error if it is of other
// traces, if the specification is of another model, or if the two runs were not rewritten by one
// plan; a usage error, with the nearest names, if a pattern matches no module.
localize::LocalizeReport localize_trace(const trace::Source& reference,
                                        const trace::Source& candidate,
                                        localize::ReportedComparison compared,
                                        const LocalizeOptions& options);

}  // namespace ttrace::engine
