// ln Γ(x).
#pragma once

namespace ttrace::base {

// For x > 0.
double log_gamma(double x);

}  // namespace ttrace::base
