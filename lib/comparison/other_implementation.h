// Tensors that one implementation computes and another one does without, such as the weights of
// eager attention: both manifests say which implementation a module computes with, and where they
// differ, such a tensor is not missing.
#pragma once

#include <vector>

#include "comparison/tensor_comparison.h"
#include "trace/manifest.h"

namespace ttrace::comparison {

// Makes these `missing`, `extra` or `incomparable` records of module values `not_recorded`. All are
// of a module that computes in another way in the candidate than in the reference (`implementation`
// of the manifests' modules), or of one around it, in a call that both runs recorded a result of
// (for arguments: a result or an argument):
//  - an argument of the module that one side alone has, or has in another form (class of type,
//    number of dimensions), and the same tensor as an argument of a module around it. Its effect
//    shows in the module's results;
//  - a result that one side alone has and that nothing reads: no module takes it and no loss is
//    computed from it, by the data flow of the side that has it. Its gradient likewise, and the
//    result of a module around it that hands it on.
// A run of the same implementation that lacks such a tensor is still bad.
void mark_other_implementations(const trace::Manifest& reference, const trace::Manifest& candidate,
                                std::vector<TensorComparison>& results);

}  // namespace ttrace::comparison
