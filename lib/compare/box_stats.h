// Statistics of a box that lies within two larger ones which are in memory.
#pragma once

#include "compare/box_values.h"
#include "compare/tile_stats.h"

namespace ttrace::compare {

// Adds the statistics of `box` to `into`. The same bits whatever larger boxes hold it, and whether
// they are stored or decoded.
void add_box(BoxValues& reference, BoxValues& candidate, const tensor::Box& box, TileStats& into);

}  // namespace ttrace::compare
