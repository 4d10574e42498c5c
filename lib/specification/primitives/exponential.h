// Sums of e^x in vectors, with the same bits on every machine.
#pragma once

#include <cstdint>

namespace ttrace::specification {

// Returns Σ e^(x[i] - shift), in eight sums that are added in order. Stores the terms in `out`,
// which may be x, or null.
double add_exponentials(const double* x, double shift, double* out, std::uint64_t n);

// The same for one instruction set; add_exponentials() takes the best one of the machine.
using ExponentialKernel = double (*)(const double* x, double shift, double* out, std::uint64_t n);
extern const ExponentialKernel kExponentialsBaseline;
extern const ExponentialKernel kExponentialsV3;  // of x86-64 alone, as the next
extern const ExponentialKernel kExponentialsV4;

}  // namespace ttrace::specification
