// ln Γ(x).
#pragma once

namespace ttrace::base {

// x must be above 0.
double log_gamma(double x);

}  // namespace ttrace::base
