// Random numbers that a model drew in its forward pass. They are data of their run: if two runs
// drew others, no tensor is to blame, and tensors that follow from them diverge themselves.
#pragma once

#include <vector>

#include "comparison/tensor_comparison.h"
#include "trace/key.h"

namespace ttrace::comparison {

// Whether it is such a tensor: a scalar named "(random)", behind the name of the module that drew
// it unless that is the model itself.
bool is_random_draw(const trace::TensorKey& key);

// Makes bad draws `not_judged`: of other numbers, of another shape, or in one run alone, since a
// job of several ranks records none.
void leave_draws_unjudged(std::vector<TensorComparison>& results);

}  // namespace ttrace::comparison
