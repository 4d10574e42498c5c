// Reads the hyperparameters of an optimizer from a manifest, and compares those of two runs.
#pragma once

#include <optional>
#include <string>

#include "measure/optimizer/step.h"

namespace ttrace::trace {
struct OptimizerGroup;
}  // namespace ttrace::trace

namespace ttrace::measure {

// The hyperparameters of one parameter in one step, read from a manifest and checked.
struct ReadHyperparameters {
  std::optional<Hyperparameters> values;
  std::string problem;  // without values: why, for every parameter of the group
};

// Returns the group's numbers if its optimizer can be replayed: its type is known, everything
// needed is recorded, and every number is finite and in the range that torch.optim accepts.
ReadHyperparameters read_hyperparameters(const trace::OptimizerGroup& group);

// Whether two settings are equal but for a rounding to single precision. NaN equals NaN alone.
bool same_number(double a, double b);

// Describes the first hyperparameter that has an effect and differs by more than a rounding to
// single precision: "lr 0.1, in the reference 0.2". Empty if none does.
std::string first_difference(const Hyperparameters& candidate, const Hyperparameters& reference);

}  // namespace ttrace::measure
