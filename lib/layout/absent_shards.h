// Shards that a run lacks although the ranks that should have them recorded the step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/manifest.h"

namespace ttrace::layout {

// Ranks that have no shard of a tensor and should: one skipped its update, for instance.
struct AbsentShards {
  trace::TensorKey key;
  std::vector<std::uint64_t> ranks;  // ascending, at least one

  bool operator==(const AbsentShards&) const = default;
};

// Returns, by key, the tensors that a rank lacks although it recorded the step and closed its
// trace: those with an `absent_on`, and main gradients and updated parameters where the rank has
// another tensor of the parameter. Which values a module has on a rank depends on the rank's
// micro-batches and tokens, so for values only `absent_on` counts.
std::vector<AbsentShards> absent_shards(const trace::Manifest& manifest);

// "rank 1 of 2 recorded step 0 but lacks it"
std::string describe_absence(const AbsentShards& absent, std::uint64_t ranks_of_run);

}  // namespace ttrace::layout
