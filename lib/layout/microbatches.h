// Tensors of single micro-batches put together, so that one big batch meets many small ones.
#pragma once

#include <string>
#include <vector>

#include "layout/view.h"

namespace ttrace::layout {

struct Composed {
  ViewPtr view;         // or null
  std::string problem;  // why it is
};

// The keys of the parts that `whole`, which must say its micro-batches, stands for, in their order.
std::vector<trace::TensorKey> part_keys(const View& whole);

// The tensor that `whole` would be if it were made of `parts`, which have the keys of part_keys.
Composed compose_microbatches(const View& whole, const std::vector<ViewPtr>& parts);

}  // namespace ttrace::layout
