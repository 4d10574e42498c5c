// The story of `ttrace compare --map-starter`: a rules file to start from where two traces are of
// two implementations of one model.
#pragma once

#include "layout/map_file.h"
#include "trace/source.h"

namespace ttrace::mapping {

// Rules that make the candidate's names the reference's, as far as values, shapes and order tell,
// and what they leave unmatched. A guess for a person to read: parameters that were exchanged by
// mistake are matched as they lie, with a note. Reads the parameters of one step, and the values of
// one micro-batch in modules without parameters. The same for every number of threads.
layout::MapFile start_map(const trace::Source& reference, const trace::Source& candidate,
                          unsigned threads);

}  // namespace ttrace::mapping
