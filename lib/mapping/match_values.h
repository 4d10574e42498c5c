// Finds modules of two traces that give the same values under other names.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "mapping/name_match.h"
#include "measure/measure.h"

namespace ttrace::mapping {

// The values of one step and micro-batch: by module, then by kind and the text in brackets after
// the module's name.
using ModuleValues =
    std::map<std::string, std::map<std::pair<trace::Kind, std::string>, measure::TensorRef>>;

struct ValueMatches {
  std::vector<NameMatch> matches;
  // For unmatched modules of the reference, the modules of the candidate that could match.
  std::map<std::string, std::vector<std::string>> ambiguous;
};

// Matches the values of modules (inputs, outputs and their gradients): of modules with the same
// parameters, then of containers of the same modules, then by values. `parameters`: all known
// matches, including parameters with the same name on both sides.
ValueMatches match_values(const ModuleValues& reference, const ModuleValues& candidate,
                          const std::vector<NameMatch>& parameters, unsigned threads);

}  // namespace ttrace::mapping
