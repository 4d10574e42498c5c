// Samples of an expression: a cut of its result, and the cuts of all values that it is computed
// from. The roundings of a run are simulated on a sample first, for a fraction of the work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "specification/expression.h"
#include "specification/primitives/cut.h"

namespace ttrace::specification {

struct Sample {
  Cut result;
  // Which cut of a value is computed; nothing: all of it. By the values of the expression.
  std::vector<std::optional<Cut>> computed;
  std::vector<ArgumentCuts> taken;  // by step
};

// Returns the sample that is the least work, or nothing if none saves most of it.
std::optional<Sample> sample_of(const Expression& expression);

// Returns what `cut` of the result needs, or nothing if the result can only be computed as a whole.
// `cut` must lie in the result, whose shape must be known.
std::optional<Sample> sample_of(const Expression& expression, const Cut& cut);

}  // namespace ttrace::specification
