// Rank files on the disks of several machines (--local-files): which of them a tensor needs, and
// which tensors a process, or a merge, can therefore judge.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "comparison/division.h"
#include "comparison/tensor_comparison.h"
#include "trace/source.h"

namespace ttrace::comparison {

// The rank files of both sides, and of the noise runs, that measuring the pair reads. Ranks that
// hold no element of it are not read. Of a tensor whose layout only the files tell (rows), those of
// all ranks of its mesh.
std::set<std::string> files_needed(const trace::Source& reference, const trace::Source& candidate,
                                   const Pair& pair);

// As prepare_work(), if `division` says which files the parts have. A part measures every tensor
// whose files it has all. In a merge, a tensor is not judged if no part has all of its files, and
// its reason names the files that each part lacks; it is unreadable if no part has any.
void prepare_local_work(const WorkDivision& division, const trace::Source& reference,
                        const trace::Source& candidate, Checkpoint& work,
                        std::vector<TensorComparison>& results);

// missing_parts(), or answer::kApart where all parts are there and yet tensors are left over.
std::string missing_in_merge(const WorkDivision& division, bool any_left);

// Whether something could not be judged since it needs a file of another machine: `problem` says
// so.
bool needs_another_machine(const std::string& problem);

// Leaves a divergence unjudged that files on another machine may explain as rounding: the
// comparison is inconclusive then.
void leave_to_other_machine(TensorComparison& result);

}  // namespace ttrace::comparison
