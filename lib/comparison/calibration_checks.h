// A calibration is worth what it is of: the noise of this very reference.
#pragma once

#include <string>
#include <vector>

#include "comparison/pairing.h"
#include "comparison/result.h"
#include "judge/calibration.h"

namespace ttrace::comparison {

// What of the reference's floating-point tensors the calibration `file` cannot judge, in a sentence
// or none: kinds and steps that it has nothing of, and numbered modules, such as experts, that did
// not run in it. Throws an input error if it lacks another one of the reference's tensors, or has
// one in another shape or type. A file without calibrated tensors (rules alone) is never refused.
std::vector<std::string> calibration_warnings(const trace::Manifest& reference,
                                              const judge::Calibration& calibration,
                                              const std::string& file);

// What the rules of the tolerance `file` do not do to these tensors: rules that are the first match
// of none, and rules that skip but ended before `today`.
std::vector<std::string> rule_warnings(const judge::Policy& rules, const std::string& file,
                                       const std::vector<Pair>& pairs, const std::string& today);

// Holds the calibration against what was measured of the parameters that the reference's first step
// begins with: throws an input error if their norm is another one than when it was made, by more
// than the rounding of a sum, or if they differed between its runs.
void check_calibrated_parameters(const trace::Manifest& reference,
                                 const judge::Calibration& calibration, const std::string& file,
                                 const std::vector<TensorComparison>& results);

}  // namespace ttrace::comparison
