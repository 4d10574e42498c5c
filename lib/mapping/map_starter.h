// Drafts a rules file for two traces of two implementations of one model (`ttrace compare
// --map-starter`).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "layout/map_rules.h"
#include "mapping/name_match.h"
#include "measure/measure.h"
#include "trace/source.h"

namespace ttrace::mapping {

// Returns rules that map the candidate's names to the reference's, found by values, shapes and
// order, and the names they leave unmatched. A draft for a person to check: parameters that were
// exchanged by mistake are matched as they are, with a note. Reads the parameters of one step, and
// the values of one micro-batch for modules without parameters. Does not depend on the number of
// threads.
layout::MapFile start_map(const trace::Source& reference, const trace::Source& candidate,
                          unsigned threads);

// Its steps: match_parameters() and match_values() find names of two traces that denote the same
// tensors, and rules_of() turns matches into rules.

}  // namespace ttrace::mapping
