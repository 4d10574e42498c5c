// x^y.
#pragma once

namespace ttrace::base {

// Follows C's Annex F for zeros, infinities, NaN and x < 0.
double power(double x, double y);

}  // namespace ttrace::base
