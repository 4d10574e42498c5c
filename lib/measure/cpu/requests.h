// The CPU's arithmetic, one function per kind of request (measure/backend.h says what each means).
#pragma once

#include "measure/backend.h"
#include "measure/cpu/kernel.h"

namespace ttrace::measure {

void compute(const Kernel& kernel, const PairRequest& request);
void compute(const Kernel& kernel, const NoiseRequest& request);
void compute(const Kernel& kernel, const TripleRequest& request);
void compute(const Kernel& kernel, const UpdateRequest& request);
void compute(const RowsRequest& request);
void compute(const ReplicasRequest& request);

}  // namespace ttrace::measure
