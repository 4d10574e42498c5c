// What takes no part in a comparison: tensors that a rule of the map drops, and with --common those
// that one side alone has.
#pragma once

#include <map>
#include <vector>

#include "engine/pairing.h"
#include "layout/map_rules.h"
#include "report/compare_report.h"

namespace ttrace::engine {

// By the keys of one side's tensors.
using DroppedTensors = std::map<trace::TensorKey, layout::DroppedBy>;

// Sets `dropped` of the pairs that a rule leaves out, counts them by rule in `out`, and warns where
// both traces have a tensor that one side's rule drops.
void mark_dropped(const DroppedTensors& of_reference, const DroppedTensors& of_candidate,
                  std::vector<Pair>& pairs, report::CompareReport& out);

// Counts what `initial_results` left out because one side alone has it.
report::LeftOut left_out_of(const std::vector<Pair>& pairs,
                            const std::vector<report::Result>& results);

}  // namespace ttrace::engine
