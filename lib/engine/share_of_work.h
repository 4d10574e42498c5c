// Which of several processes measures what. They agree without talking, from the manifests alone.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/pairing.h"
#include "report/compare_report.h"

namespace ttrace::engine {

// The number (from 0) of the one of `parts` that gets item i, so that their sums are about equal:
// the heaviest first, each to the part with the least so far.
std::vector<std::uint64_t> dealt_out(const std::vector<std::uint64_t>& weights,
                                     std::uint64_t parts);

// Bytes that measuring the pair reads, about; both sides are there.
std::uint64_t bytes_to_read(const Pair& pair, const trace::Manifest& candidate);

// For every pair that is to be measured the number (from 0) of the part that does it; 0 for the
// others, which the manifests alone judge. results[i] belongs to pairs[i].
std::vector<std::uint64_t> parts_of(const std::vector<Pair>& pairs,
                                    const std::vector<report::Result>& results,
                                    const trace::Manifest& candidate, std::uint64_t parts);

}  // namespace ttrace::engine
