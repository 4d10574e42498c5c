// Pairs, noise and replicas on the CPU: sums over the tiles of boxes.
// measure/backend.h says what each request means.
#pragma once

#include "measure/backend.h"
#include "measure/cpu/kernel.h"

namespace ttrace::measure {

void compute(const Kernel& kernel, const PairRequest& request);
void compute(const Kernel& kernel, const NoiseRequest& request);
void compute(const ReplicasRequest& request);

}  // namespace ttrace::measure
