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

// Which of several processes measures what. They agree without talking, from the manifests alone.

// The number (from 0) of the one of `parts` that gets item i, so that their sums are about equal:
// the heaviest first, each to the part with the least so far.
std::vector<std::uint64_t> dealt_out(const std::vector<std::uint64_t>& weights,
                                     std::uint64_t parts);

// Bytes that measuring the pair reads, about; both sides are there.
std::uint64_t bytes_to_read(const Pair& pair, const trace::Manifest& candidate);

// For every pair that is to be measured the number (from 0) of the part that does it; 0 for the
// others, which the manifests alone judge.
std::vector<std::uint64_t> parts_of(const std::vector<Result>& results,
                                    const trace::Manifest& candidate, std::uint64_t parts);

// What of the long work is left for this process: not what others do, nor what is done already.

struct WorkDivision {
  // Measures this share alone, and leaves the others' tensors skipped.
  std::optional<PartNumber> part = std::nullopt;
  // Not empty: parts 1, 2, ... have measured everything, and are called so in messages.
  std::vector<std::string> measured_by = {};
};

// Throws an input error where something known cannot be of the
// pair, or where a part that has measured everything has not.
void prepare_work(const WorkDivision& division, const trace::Source& candidate, FinishedWork& work,
                  std::vector<Result>& results);

}  // namespace ttrace::comparison
