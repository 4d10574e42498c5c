// x^y.
#pragma once

namespace ttrace::base {

// As C's Annex F says for zeros, infinities, no numbers and x < 0.
double power(double x, double y);

}  // namespace ttrace::base
