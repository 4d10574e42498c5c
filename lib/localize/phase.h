// The part of a training step that a tensor belongs to; parts explain each other in this order.
#pragma once

#include <string_view>

#include "trace/key.h"

namespace ttrace::localize {

enum class Phase {
  kParameter,
  kInput,
  kForward,
  kLoss,
  kBackward,
  kSynchronisation,
  kGradNorm,
  kOptimizer,
  kState,  // what the step leaves to the next one, besides parameters
};

// Name in the JSON report.
std::string_view phase_name(Phase phase);

Phase phase_of(const trace::TensorKey& key);

}  // namespace ttrace::localize
