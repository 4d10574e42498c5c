// Tensors that fewer ranks recorded than hold them: a rank that skipped its update, for instance.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/manifest.h"

namespace ttrace::layout {

struct AbsentPart {
  trace::TensorKey key;
  std::vector<std::uint64_t> ranks;  // ascending, at least one

  bool operator==(const AbsentPart&) const = default;
};

// The tensors of which ranks lack a part that closed their traces and recorded the step, by key:
// what the entries say (`absent_on`), and main gradients and updated parameters that not all ranks
// have that have the parameter's others. Which values a module has on a rank depends on the rank's
// micro-batches and tokens, so of those only gaps in the layout count, which `absent_on` tells.
std::vector<AbsentPart> absent_parts(const trace::Manifest& manifest);

// "rank 1 of 2 recorded step 0 but lacks it"
std::string describe_absence(const AbsentPart& part, std::uint64_t ranks_of_run);

}  // namespace ttrace::layout
