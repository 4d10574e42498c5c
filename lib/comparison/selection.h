// Decides which tensors are compared, by flags and rules, and makes the records. Records that need
// no measuring get their outcome here.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "comparison/pairing.h"
#include "comparison/result.h"
#include "comparison/run_facts.h"
#include "comparison/tensor_selection.h"
#include "judge/calibration.h"
#include "layout/map_apply.h"
#include "layout/map_rules.h"
#include "trace/key.h"
#include "trace/source.h"

namespace ttrace::comparison {

// The tensors of one side that a rule drops, by their keys.
using DroppedKeys = std::map<trace::TensorKey, layout::DroppedBy>;

// Sets `dropped` of the pairs that a rule leaves out, counts them by rule in `out`, and warns where
// both traces have a tensor that one side's rule drops.
void mark_dropped(const DroppedKeys& of_reference, const DroppedKeys& of_candidate,
                  std::vector<Pair>& pairs, CompareReport& out);

// Returns warnings about rules of the tolerance `file` without effect: rules that are the first
// match of no tensor, and rules that skip but ended before `today`.
std::vector<std::string> rule_warnings(const judge::Policy& rules, const std::string& file,
                                       const std::vector<Pair>& pairs, const std::string& today);

// Counts the tensors that `initial_results` left out because one side alone has them.
LeftOut left_out_of(const std::vector<TensorComparison>& results);

struct InitialResultsInput {
  const trace::Source& reference;
  const trace::Source& candidate;
  const Selection& selection;
  const judge::Policy& rules;
  std::string today;  // "2026-11-21": rules that skip may end on a day
  // Ranks that cannot be read or did not close their files, in words; empty if there are none.
  std::string lost_in_reference;
  std::string lost_in_candidate;
  Absences absent_in_reference = {};
  Absences absent_in_candidate = {};
  bool common = false;  // judge what both sides have, and leave out the rest
};

// Makes a record of every pair. Outcomes: `skipped_by_rule` (not selected, a rule says so, or one
// side alone has it and `common`), `not_recorded` (one side was told to leave it out, or recorded a
// loss without its gradient), `missing` (from a trace, or from some of the ranks that hold it),
// `extra`, `unreadable` (absent from a trace that has lost ranks, which may have held it),
// `incomparable`, else `match`: to be measured.
std::vector<TensorComparison> initial_results(const InitialResultsInput& input,
                                              std::vector<Pair> pairs);

}  // namespace ttrace::comparison
