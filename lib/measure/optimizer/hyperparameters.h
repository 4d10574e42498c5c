// Reads the hyperparameters of one parameter in one step from a manifest and checks them.
#pragma once

#include <optional>
#include <string>

#include "measure/optimizer/step.h"
#include "trace/manifest.h"

namespace ttrace::measure {

struct ReadHyperparameters {
  std::optional<Hyperparameters> values;
  std::string problem;  // without values: why, in words that hold for every parameter of the group
};

// The group's numbers, if its optimizer can be replayed with them: a known type, everything there
// that it needs, every number finite and in the range that torch.optim accepts.
ReadHyperparameters read_hyperparameters(const trace::OptimizerGroup& group);

// "lr 0.1, in the reference 0.2" for the first that has an effect and differs by more than the
// rounding of a single-precision copy; empty if none does.
std::string first_difference(const Hyperparameters& candidate, const Hyperparameters& reference);

}  // namespace ttrace::measure
