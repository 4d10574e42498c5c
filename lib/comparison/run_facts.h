// Facts about a run as a whole: whether its layouts are sound, which ranks are lost, what it
// recorded.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "comparison/result.h"
#include "measure/backend.h"
#include "trace/source.h"

namespace ttrace::comparison {

// Throws an input error naming the first contradiction in the manifest's layouts and how many there
// are.
void require_sound_layouts(const trace::Source& source);

// Ranks that cannot be read, or did not close their files: tensors that they lack may be lost.
struct LostRanks {
  // A sentence for each of the first hundred ranks whose files cannot be read, and one for the
  // rest.
  std::vector<std::string> problems;
  std::vector<std::uint64_t> unreadable;
  std::string text;  // "rank 3 cannot be read", "ranks {0, 2} did not close their files"; or empty
};
LostRanks lost_ranks_of(const trace::Source& source);

// Describes which ranks lack their share of a tensor, by tensor. Ranks that are lost do not count:
// their tensors cannot be read.
using Absences = std::map<trace::TensorKey, std::string>;
Absences absences_of(const trace::Source& source, const LostRanks& lost);

answer::TraceFacts facts_of(const trace::Source& source);

// Sets the members that say what the work ran on.
void set_execution(const measure::ExecutionContext& execution, answer::Environment& environment);

// Warns of runs that were not rewritten by the same plan as the reference.
std::vector<std::string> plan_warnings(const trace::Source& reference,
                                       const trace::Source& candidate,
                                       const std::vector<const trace::Source*>& noise);

// Returns plan_warnings(), and a warning if a reference of many ranks and a candidate of one look
// swapped.
std::vector<std::string> run_warnings(const trace::Source& reference,
                                      const trace::Source& candidate,
                                      const std::vector<const trace::Source*>& noise);

// Returns the kinds of a training step that neither run has: nothing of them is checked.
std::vector<trace::Kind> kinds_in_neither(const trace::Manifest& reference,
                                          const trace::Manifest& candidate);

// Returns the reference's entries of `run.incomplete` about tensors that the candidate's name, too.
std::vector<trace::Incomplete> left_out_by_both(const trace::Manifest& reference,
                                                const trace::Manifest& candidate);

// Returns why no gradient that an optimizer consumed was checked, or empty: neither run has a main
// gradient, though one has raw gradients or an optimizer and was not told to leave them out.
std::string unrecorded_main_gradients(const trace::Manifest& reference,
                                      const trace::Manifest& candidate);

// Returns the steps that a GradScaler skipped, by the settings of their optimizers: gradients of
// such a step are not finite in a healthy run.
std::set<std::uint64_t> skipped_steps(const trace::Manifest& manifest);

// Returns those that were skipped in both runs, ascending.
std::vector<std::uint64_t> steps_skipped_in_both(const trace::Manifest& reference,
                                                 const trace::Manifest& candidate);

}  // namespace ttrace::comparison
