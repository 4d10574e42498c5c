// Samples of an expression: a part of its result, and what of every value that part needs. The
// roundings of a run are simulated on a sample first, for a fraction of the work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "specification/expression.h"
#include "specification/primitives/value.h"

namespace ttrace::specification {

// The indices start, start + step, ... of one dimension of a value, `count` of them.
struct Cut {
  std::size_t dim = 0;
  std::uint64_t start = 0;
  std::uint64_t step = 1;
  std::uint64_t count = 0;

  bool operator==(const Cut&) const = default;
  Value of(const Value& whole) const;
};

struct Sample {
  Cut result;
  // Which part of a value is computed; nothing: all of it. By the values of the expression.
  std::vector<std::optional<Cut>> computed;
  // Which part of each argument a step takes; nothing: all of it. By step.
  std::vector<std::vector<std::optional<Cut>>> taken;
};

// Returns the sample that is the least work, or nothing if none saves most of it.
std::optional<Sample> sample_of(const Expression& expression);

// Returns what `part` of the result needs, or nothing if the result can only be computed as a
// whole. `part` must lie in the result, whose shape must be known.
std::optional<Sample> sample_of(const Expression& expression, const Cut& part);

}  // namespace ttrace::specification
