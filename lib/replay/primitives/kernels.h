// The inner loop of exponentials. Compiled once per instruction set: the order of every sum is the
// same.
#pragma once

#include <cstdint>

namespace ttrace::replay {

// add_exponentials() (exponential.h).
using ExponentialKernel = double (*)(const double* x, double shift, double* out, std::uint64_t n);

// The kernels of one instruction set.
struct Kernels {
  ExponentialKernel add_exponentials;
};

extern const Kernels kKernelsBaseline;
extern const Kernels kKernelsV3;  // of x86-64 alone, as the next
extern const Kernels kKernelsV4;

// Those of the best instruction set that this machine has.
const Kernels& fastest_kernels();

}  // namespace ttrace::replay
