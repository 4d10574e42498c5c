// Names by which the results and findings of two reports can be joined.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "comparison/result.h"
#include "trace/key.h"

namespace ttrace::report {

// "step/mb/kind/name/call/copy", "-" for a tensor of no micro-batch: "0/-/main_grad/fc.weight/0/0".
// The name is as it is in the trace; the three numbers before it and the two after it hold no "/".
std::string id_of(const trace::TensorKey& key);

// Findings as a reader takes them in: what one bug does to forty layers is one thing.

struct FindingGroup {
  // Of one finding its result's (result_id.h); of what is missing as a whole
  // "group:0/-/missing/layers.3/0/0"; of several "group:0/-/main_grad/layers.*.norm1.*/0/0".
  std::string id;
  std::vector<std::size_t> findings;  // at least one, ascending
  std::size_t shown = 0;              // of them, the one furthest beyond what is allowed
  // Of several: "main_grad of 10 LayerNorm parameters (layers.*.norm1.*, final_norm.*)".
  std::string title;
};

// Findings of one step, kind and outcome are put together if they have one cause (and axis), or,
// where none is known, names that differ in numbers alone; over layers, micro-batches, calls and
// copies. What is missing or extra together is a finding already. In the order of their first.
std::vector<FindingGroup> group_findings(const comparison::CompareReport& report);

// "setting:0/weight_decay/fc.weight", with the first of the parameters.
std::string id_of(const comparison::SettingDifference& setting);

// Settings and groups in the order in which a report lists them: a setting stands before the first
// finding of its step's optimizer phase.
struct Listed {
  std::optional<std::size_t> setting;  // index into report.settings
  std::size_t group = 0;               // else, index into the groups
};
std::vector<Listed> listed(const comparison::CompareReport& report,
                           const std::vector<FindingGroup>& groups);

}  // namespace ttrace::report
