// The second opinion: every compared tensor held against a run in higher precision.
#pragma once

#include <string>
#include <vector>

#include "engine/finished_work.h"
#include "engine/pairing.h"
#include "engine/work_hooks.h"
#include "layout/map_rules.h"
#include "report/compare_report.h"

namespace ttrace::engine {

struct TruthInput {
  const trace::Source& truth;
  const Side& reference;
  const Side& candidate;
  // The reference's rules of a map: the truth is a run of the reference. Those that match nothing
  // in it are passed over.
  const std::vector<layout::MapRule>& map;
  const std::vector<Pair>& pairs;
  unsigned threads;
  FinishedWork& work;
  const WorkHooks& hooks;
};

// Gives results[i], of pairs[i], its `truth` where the truth has the tensor in the same shape, and
// sets `out.truth`, warnings and the bytes read. Outcomes stay as they are. Throws an input error
// if the truth's manifest contradicts itself; a tensor that cannot be read is counted and warned
// of.
void add_truth(const TruthInput& input, report::CompareReport& out);

}  // namespace ttrace::engine
