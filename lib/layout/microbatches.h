// Joins tensors of single micro-batches, so that a run with one big batch is compared with a run
// with many small ones.
#pragma once

#include <string>
#include <vector>

#include "layout/view.h"

namespace ttrace::layout {

struct Composed {
  ViewPtr view;         // or null
  std::string problem;  // why it is
};

// The keys of the tensors that `whole`, which must name its micro-batches, is made of, in order.
std::vector<trace::TensorKey> part_keys(const View& whole);

// The tensor that `whole` would be if it were made of `parts`, which have the keys of part_keys.
Composed compose_microbatches(const View& whole, const std::vector<ViewPtr>& parts);

}  // namespace ttrace::layout
