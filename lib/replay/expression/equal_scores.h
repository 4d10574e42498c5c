// Choices among equal scores. Which of several elements with one score topk and sort name first is
// up to the kernel, and no simulated rounding shows it: -inf of a mask and 0 of a relu stay equal.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "measure/backend.h"
#include "replay/expression/evaluate.h"
#include "replay/primitives/value.h"
#include "replay/specification/expression.h"

namespace ttrace::replay {

// What indices were chosen from.
class EqualScores {
 public:
  // Returns nothing if the result is not the indices of a topk or of a sort, cut or reshaped at
  // most. Throws as evaluate() does.
  static std::optional<EqualScores> of(const Expression& expression, std::span<const Value> leaves,
                                       const measure::ExecutionContext& context,
                                       const Sharing* sharing);

  // The row-major indices of the elements of `chosen` that differ from `expected`, other than by
  // naming another element of the same score that is named nowhere else in its line. NaN equals no
  // score. Both are of the shape of the result, dense.
  std::vector<std::uint64_t> different(const Value& chosen, const Value& expected) const;

 private:
  EqualScores(Value scores, Value places, std::uint64_t kept);

  Value scores_;  // lines of them, in the last dimension
  Value places_;  // of each element of the result: line · kept_ + place among the chosen ones
  std::uint64_t kept_;
};

}  // namespace ttrace::replay
