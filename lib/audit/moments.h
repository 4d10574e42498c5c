// An optimizer that says it has made updates before has moments of them.
#pragma once

#include <vector>

#include "audit/record.h"
#include "trace/manifest.h"

namespace ttrace::audit {

// Where all moments that a step begins with are 0 to the bit although every parameter has been
// updated before, by the optimizer's own counts, and a gradient comes: the state was not loaded
// with the count. The states of such a step get a check that says so. Says nothing of a step in
// which one moment is not 0 (a parameter may have had no gradient so far), of fewer than two
// moments, and of optimizers without moments. `tensors` have their norms.
void check_moments(const trace::Manifest& manifest, std::vector<AuditedTensor>& tensors);

}  // namespace ttrace::audit
