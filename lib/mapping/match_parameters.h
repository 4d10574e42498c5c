// Finds parameters of two traces that are the same tensors under other names.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "mapping/name_match.h"
#include "measure/measure.h"

namespace ttrace::mapping {

struct ParameterMatches {
  std::vector<NameMatch> matches;
  // For unmatched names of the reference, the names of the candidate that could match.
  std::map<std::string, std::vector<std::string>> ambiguous;
};

// Matches parameters: by their values, also if they are joined, interleaved in groups or
// transposed, then by shape and order. Each side has the parameters whose names the other side
// lacks, in the order of use.
ParameterMatches match_parameters(const std::vector<measure::TensorRef>& reference,
                                  const std::vector<measure::TensorRef>& candidate,
                                  unsigned threads);

}  // namespace ttrace::mapping
