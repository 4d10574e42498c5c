// Facts about a run as a whole: whether its layouts are sound, which ranks are lost, what it
// recorded.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "comparison/result.h"
#include "trace/source.h"

namespace ttrace::comparison {

// Throws an input error naming the first contradiction in the manifest's layouts and how many there
// are.
void require_sound_layouts(const trace::Source& source);

// Ranks of which nothing can be read, and those that did not close their files: what they lack may
// have been lost.
struct LostRanks {
  std::vector<std::string> problems;  // a sentence for every rank whose file cannot be read
  std::vector<std::uint64_t> unreadable;
  std::string words;  // "rank 3 cannot be read", "ranks {0, 2} did not close their files"; or empty
};
LostRanks lost_ranks_of(const trace::Source& source);

// Of the tensors that fewer ranks recorded than hold them, which ranks lack them, in words. Ranks
// that are lost do not count: their tensors cannot be read.
using Absences = std::map<trace::TensorKey, std::string>;
Absences absences_of(const trace::Source& source, const LostRanks& lost);

TraceFacts facts_of(const trace::Source& source);

// Runs that were not rewritten by one and the same plan have nothing to do with each other.
std::vector<std::string> plan_warnings(const trace::Source& reference,
                                       const trace::Source& candidate,
                                       const std::vector<const trace::Source*>& noise);

// Those, and one where a reference of many ranks and a candidate of one look swapped.
std::vector<std::string> run_warnings(const trace::Source& reference,
                                      const trace::Source& candidate,
                                      const std::vector<const trace::Source*>& noise);

// The kinds of a training step that neither run has: what they would show is not checked.
std::vector<trace::Kind> kinds_in_neither(const trace::Manifest& reference,
                                          const trace::Manifest& candidate);

}  // namespace ttrace::comparison
