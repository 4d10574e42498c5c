// The checks of `ttrace doctor` that read some values.
#pragma once

#include <optional>

#include "engine/doctor/check.h"

namespace ttrace::engine::doctor {

// Compares what the first common step begins with: parameters, at most some hundred MB of them, and
// the inputs of the model. Sets `start` or `no_start`.
void compare_start(Runs& runs);

std::optional<Found> check_weights(const Runs& runs);
std::optional<Found> check_data(const Runs& runs);
std::optional<Found> check_dropout(const Runs& runs);
std::optional<Found> check_optimizer(const Runs& runs);

}  // namespace ttrace::engine::doctor
