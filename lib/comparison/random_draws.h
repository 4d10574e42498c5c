// Random numbers that a model drew in its forward. They are data of their run: two runs that drew
// others have no tensor to blame for it, and what follows from them says by itself that it differs.
#pragma once

#include <vector>

#include "comparison/tensor_comparison.h"
#include "trace/key.h"

namespace ttrace::comparison {

// Whether it is such a tensor: a scalar named "(random)", after the module that drew it if that is
// not the model itself.
bool is_random_draw(const trace::TensorKey& key);

// Makes bad draws `not_judged`: others, of another shape, or of one run alone, since a job of
// several ranks records none.
void leave_draws_unjudged(std::vector<TensorComparison>& results);

}  // namespace ttrace::comparison
