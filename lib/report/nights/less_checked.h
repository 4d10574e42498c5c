// Whether a night checked less than one before it.
#pragma once

#include <string>

#include "report/nights/night.h"

namespace ttrace::report {

// Why `newer` checked too little of what `older` had checked, in a clause that has both files'
// names, or empty: a loss, a gradient norm or a parameter is no longer checked, or as many main
// gradients, updated parameters or tensors of the step as would make a comparison inconclusive
// (comparison/coverage.h). What a person left out counts, too. A report that does not list every
// tensor is asked for its counts.
std::string less_checked(const Night& older, const Night& newer);

}  // namespace ttrace::report
