// Checks the layouts of a whole manifest, and corrects them by rules.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trace/manifest.h"

namespace ttrace::layout {

// Returns every contradiction in the manifest's layouts, one sentence each with a JSON pointer.
// Reads only the entries of index tensors, not their rows.
std::vector<std::string> layout_problems(const trace::Manifest& manifest);

// Ranks that have no shard of a tensor and should: one skipped its update, for instance.
struct AbsentShards {
  trace::TensorKey key;
  std::vector<std::uint64_t> ranks;  // ascending, at least one

  bool operator==(const AbsentShards&) const = default;
};

// Returns, by key, the tensors that a rank lacks although it recorded the step and closed its
// trace: those with an `absent_on`, and main gradients and updated parameters where the rank has
// another tensor of the parameter. Which values a module has on a rank depends on the rank's
// micro-batches and tokens, so of values only `absent_on` counts.
std::vector<AbsentShards> absent_shards(const trace::Manifest& manifest);

// "rank 1 of 2 recorded step 0 but lacks it"
std::string describe_absence(const AbsentShards& absent, std::uint64_t ranks_of_run);

// Returns `manifest` with the rules of the JSON document `text` applied to it
// (schemas/rules-v1.md), so that a job need not record its trace again. The first rule that matches
// a tensor counts. If a rule changes how a tensor is cut and gives no shape, the ranks' shards keep
// theirs, and the shape of the whole follows from them. Throws an input error naming `file` for
// everything that parse_manifest refuses, a rule that matches no tensor, and a shape that does not
// follow.
trace::Manifest with_layout_rules(const trace::Manifest& manifest, std::string_view text,
                                  const std::string& file);

}  // namespace ttrace::layout
