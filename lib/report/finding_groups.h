// Groups of findings, and ids that join the results and findings of two reports.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "comparison/result.h"
#include "trace/key.h"

namespace ttrace::report {

// Findings that a reader takes as one: the effect of one bug on forty layers.
struct FindingGroup {
  // Step, phase, kind and class of the modules: "group:0/synchronisation/main_grad/LayerNorm", with
  // "*" for several classes and "-" where none is known. Neither names nor the cause are part of
  // it, so that it is the same in the next report although a tensor is less or a cause better
  // known. Unique in a report by a suffix: "~2" for the second. For a missing module it is the id
  // of the finding: "group:0/-/missing/layers.3/0/0".
  std::string id;
  std::vector<std::size_t> findings;  // at least one, ascending
  std::size_t shown = 0;              // the finding furthest beyond its tolerance
  // "main_grad of 10 LayerNorm parameters (layers.*.norm1.*, final_norm.*)"; for one "main_grad of
  // fc.weight"; empty for a missing module.
  std::string title;
};

// Groups findings of the same step, kind and outcome that have the same cause and axis, or, if no
// cause is known, names that differ only in numbers. Groups span layers, micro-batches, calls and
// copies. Tensors that are missing or extra together are already a single finding. Groups are in
// the order of their first finding.
std::vector<FindingGroup> group_findings(const comparison::CompareReport& report);

// The ranks in whose shards a finding of the group has an error, ascending.
std::vector<std::uint64_t> ranks_of(const comparison::CompareReport& report,
                                    const FindingGroup& group);

// The id of a setting, "setting:0/weight_decay/fc.weight", with its first parameter.
std::string id_of(const comparison::SettingDifference& setting);

// An entry of the report's list.
struct Listed {
  std::optional<std::size_t> setting;  // index into report.settings, or nothing:
  std::size_t group = 0;               // index into the groups
};
// Settings and groups in the order of the report: a setting precedes the first finding of the
// optimizer phase of its step.
std::vector<Listed> listed(const comparison::CompareReport& report,
                           const std::vector<FindingGroup>& groups);

}  // namespace ttrace::report
