// Divides a comparison among processes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comparison/checkpoint.h"
#include "comparison/pairing.h"
#include "comparison/part_of_work.h"
#include "comparison/result.h"

namespace ttrace::comparison {

// Returns for every item the number (from 0) of the process that gets it, so that their sums of
// weights are about equal: the heaviest item first, each to the process with the least so far.
// Processes need not talk: all compute the same from the manifests.
std::vector<std::uint64_t> dealt_out(const std::vector<std::uint64_t>& weights,
                                     std::uint64_t parts);

// Bytes that measuring the pair reads, about; both sides are there.
std::uint64_t bytes_to_read(const Pair& pair, const trace::Manifest& candidate);

// Returns for every record that is to be measured the number (from 0) of the process that measures
// it, and 0 for the others, which the manifests alone judge.
std::vector<std::uint64_t> parts_of(const std::vector<TensorComparison>& results,
                                    const trace::Manifest& candidate, std::uint64_t parts);

struct WorkDivision {
  // Measures this share alone, and leaves the others' tensors skipped.
  std::optional<PartNumber> part = std::nullopt;
  // Not empty: parts 1, 2, ... have measured everything, and are called so in messages.
  std::vector<std::string> measured_by = {};
};

// Leaves this process only its own share of the measuring, less what was restored. Throws an input
// error where a restored measurement does not fit its tensor, or where a part that should have
// measured everything has not.
void prepare_work(const WorkDivision& division, const trace::Source& candidate, Checkpoint& work,
                  std::vector<TensorComparison>& results);

}  // namespace ttrace::comparison
