// What is known of every pair before anything is measured: which are not to be measured, and why.
#pragma once

#include <string>
#include <vector>

#include "engine/open_checks.h"
#include "engine/pairing.h"
#include "engine/selection.h"
#include "report/compare_report.h"
#include "tolerance/policy.h"
#include "trace/source.h"

namespace ttrace::engine {

struct InitialResultsInput {
  const trace::Source& reference;
  const trace::Source& candidate;
  const Selection& selection;
  const tolerance::Policy& rules;
  std::string today;  // "2026-11-21": rules that skip may end on a day
  // Ranks that cannot be read or did not close their files, in words; empty if there are none.
  std::string lost_in_reference;
  std::string lost_in_candidate;
  Absences absent_in_reference = {};
  Absences absent_in_candidate = {};
  bool common = false;  // judge what both sides have, and leave out the rest
};

// result[i] belongs to pairs[i]. Outcomes: `skipped_by_rule` (not selected, a rule says so, or one
// side alone has it and `common`), `not_recorded` (one side was told to leave it out), `missing`
// (from a trace, or from some of the ranks that hold it), `extra`, `unreadable` (absent from a
// trace that has lost ranks, which may have held it), `incomparable`, else `match`: to be measured.
std::vector<report::Result> initial_results(const InitialResultsInput& input,
                                            const std::vector<Pair>& pairs);

}  // namespace ttrace::engine
