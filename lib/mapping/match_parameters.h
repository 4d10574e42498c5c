// Which parameters of two traces are the same ones: by their values, be they joined, dealt to
// groups or transposed, then by shape and order.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "mapping/name_match.h"
#include "measure/measure.h"

namespace ttrace::mapping {

struct ParameterMatches {
  std::vector<NameMatch> matches;
  // Of the reference's names that are left, those of the candidate's that may be meant.
  std::map<std::string, std::vector<std::string>> ambiguous;
};

// The parameters of both traces whose names are no name of the other side's, each side in the order
// of use.
ParameterMatches match_parameters(const std::vector<measure::TensorRef>& reference,
                                  const std::vector<measure::TensorRef>& candidate,
                                  unsigned threads);

}  // namespace ttrace::mapping
