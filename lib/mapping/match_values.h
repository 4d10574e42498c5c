// Which values of modules (inputs, outputs and their gradients) are the same ones: those of modules
// with the same parameters, then containers of the same modules, then by their values.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "mapping/name_match.h"
#include "measure/measure.h"

namespace ttrace::mapping {

// The values of one step and micro-batch by module, by kind, and what stands in brackets after the
// module's name.
using ModuleValues =
    std::map<std::string, std::map<std::pair<trace::Kind, std::string>, measure::TensorRef>>;

struct ValueMatches {
  std::vector<NameMatch> matches;
  // Of modules of the reference, those of the candidate that may be meant.
  std::map<std::string, std::vector<std::string>> ambiguous;
};

// `parameters`: what is known of them, those that have the same name on both sides too.
ValueMatches match_values(const ModuleValues& reference, const ModuleValues& candidate,
                          const std::vector<NameMatch>& parameters, unsigned threads);

}  // namespace ttrace::mapping
