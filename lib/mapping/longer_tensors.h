// Tensors that one side has longer than the other under the rules of a starter.
#pragma once

#include <string>
#include <vector>

#include "comparison/tensor_comparison.h"
#include "trace/manifest.h"
#include "trace/source.h"

namespace ttrace::mapping {

// Returns a note on every tensor of `pairs` that one side has longer and that a comparison does not
// take for padding: why it is none, or the rule that would trim it. A starter trims nothing: such a
// comparison does not match because only a person knows whether that is padding. `modules` are the
// reference's, by the names of the pairs.
std::vector<std::string> notes_on_longer(const trace::Source& reference,
                                         const trace::Source& candidate,
                                         const std::vector<trace::Module>& modules,
                                         const std::vector<comparison::Pair>& pairs);

}  // namespace ttrace::mapping
