// What matters most in a comparison: losses, gradient norms and main gradients, and parameters. A
// run that did not check them does not match, however many other tensors agree.
#pragma once

#include <string>

#include "comparison/result.h"

namespace ttrace::comparison {

// Each function returns a reason why the comparison is inconclusive, in words that follow "nothing
// diverged, but ", or empty if the reason does not apply.

// The candidate was told not to record a loss, gradient norm or main gradient of the reference.
// A selection at the command is the user's decision, but a gap in a recording is not.
std::string essentials_not_recorded(const CompareReport& report);
// --common left out a parameter, loss or main gradient.
std::string essentials_left_out(const CompareReport& report);
// A loss, a gradient norm, or a tenth of the main gradients was not judged, or lies below noise.
std::string essentials_unchecked(const CompareReport& report);
// The updates of more than a tenth of the parameters (answer::kMostUnjudgedUpdates) were not
// judged, or lie below noise.
std::string updates_unchecked(const CompareReport& report);
// A main gradient below the noise floor counts as checked if its allowed error is at most this
// share of the usual gradient's root mean square: no wrong value of that size would pass. The
// biases of convolutions before a batch norm have such gradients, zero but for rounding: 1e-6 to
// 1e-3 is allowed of healthy networks in float32.
inline constexpr double kMostOfUsualGradient = 0.01;

// Most values of a loss, gradient norm, main gradient or parameter are not finite, the same ones on
// both sides, and no loss scaler skipped the step for it in both runs.
std::string essentials_not_finite(const CompareReport& report);

}  // namespace ttrace::comparison
