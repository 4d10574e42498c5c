// A value multiplied once too often or too seldom: C ≈ k·R, and what is left over is rounding.
#pragma once

#include <string>
#include <vector>

#include "localize/causes/cause.h"

namespace ttrace::localize {

// The factor, to the digits that the residual supports, and the simple fraction that it is, if one
// stands out. A mesh axis is named where the factor is its size, or the inverse, and a sum was made
// over it (Case::reduced_over): many things have the size 2.
std::vector<Cause> find_scaled(const Case& the_case);

// "1.0323 = 32/31", "0.5 = 1/2", "3"; `uncertainty` ≥ 0 is how far off `factor` may be. Never "1":
// digits are added until it differs. A fraction (n, 1/n, n/(n ± 1), or of numbers up to 16) is
// named where a factor that is as uncertain would rarely come as near to one by chance.
std::string describe_factor(double factor, double uncertainty);

}  // namespace ttrace::localize
