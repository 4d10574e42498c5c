// What of the long work is left for this process: not what others do, nor what is done already.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/finished_work.h"
#include "engine/pairing.h"
#include "report/compare_report.h"

namespace ttrace::engine {

struct WorkDivision {
  // Measures this share alone, and leaves the others' tensors skipped.
  std::optional<report::PartNumber> part = std::nullopt;
  // Not empty: parts 1, 2, ... have measured everything, and are called so in messages.
  std::vector<std::string> measured_by = {};
};

// results[i] belongs to pairs[i]. Throws an input error where something known cannot be of the
// pair, or where a part that has measured everything has not.
void prepare_work(const WorkDivision& division, const trace::Source& candidate,
                  const std::vector<Pair>& pairs, FinishedWork& work,
                  std::vector<report::Result>& results);

}  // namespace ttrace::engine
