// Where in a step and in the code a finding is, in words.
#pragma once

#include <string>
#include <string_view>

#include "localize/phase.h"
#include "localize/place.h"

namespace ttrace::report {

// "backward, gradient synchronisation".
std::string_view describe_phase(localize::Phase phase);

// "layers.0.attn"; "between the modules of layers.0 (model.py:61 Layer.forward)"; "the gradient
// synchronisation over tp"; "the optimizer". `called_at`: where the module of the tensor is called.
std::string describe_place(const localize::Place& place, std::string_view called_at);

}  // namespace ttrace::report
