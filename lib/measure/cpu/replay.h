// Values recomputed from other tensors on the CPU: sums over rows, and updates of an optimizer.
// measure/backend.h says what each request means.
#pragma once

#include "measure/backend.h"
#include "measure/cpu/kernel.h"

namespace ttrace::measure {

void compute(const Kernel& kernel, const UpdateRequest& request);
void compute(const RowsRequest& request);

}  // namespace ttrace::measure
