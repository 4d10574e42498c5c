// Choices among equal scores. Which of several elements with one score topk and sort name first is
// up to the kernel, and no simulated rounding shows it: -inf of a mask and 0 of a relu stay equal.
// What is chosen by a score that roundings changed has a score near the expected one: the j-th
// largest of scores that are off by δ at most is off by δ.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "measure/backend.h"
#include "specification/evaluate/evaluate.h"
#include "specification/expression.h"
#include "specification/primitives/value.h"

namespace ttrace::specification {

// How much further than those of two draws the roundings of a run may move a score.
inline constexpr double kReach = 3;

// What indices were chosen from.
class EqualScores {
 public:
  // Returns nothing if the result is not the indices of a topk or of a sort, cut or reshaped at
  // most. Throws as evaluate() does.
  static std::optional<EqualScores> of(const Expression& expression, std::span<const Value> leaves,
                                       const measure::ExecutionContext& context,
                                       const ValueSharing* sharing);

  // `chosen` in the order in which `expected` has them, where the choice is of no order: what both
  // name stands at the place where `expected` names it, and the rest by falling score. As it is
  // where the choice has an order, or the result lacks some of it.
  Value in_order_of(const Value& chosen, const Value& expected) const;

  // The row-major indices of the elements of `chosen` that differ from `expected`, other than by
  // naming another element of the same score that is named nowhere else in its line. NaN equals no
  // score. Both are of the shape of the result, dense.
  std::vector<std::uint64_t> different(const Value& chosen, const Value& expected) const;

  // Whether the choice has an order.
  bool ordered() const { return ordered_; }
  // The value of the expression that the scores are.
  std::uint32_t value() const { return value_; }
  // The scores with simulated roundings.
  void add_draw(const Value& moved);
  // Whether roundings of kReach times those that were added may have made `different` elements of
  // `chosen` what they are: each names an element, none that is named elsewhere in its line, whose
  // score is near that of the expected one.
  bool may_be_rounding(const Value& chosen, const Value& expected,
                       std::span<const std::uint64_t> different) const;

 private:
  EqualScores(std::uint32_t value, std::size_t dim, const Value& scores, Value places,
              std::uint64_t kept, bool ordered, bool largest);

  // By element of scores_: the place among the chosen ones that names it, or kSeveral.
  using Named = std::unordered_map<std::uint64_t, std::uint64_t>;
  static constexpr std::uint64_t kSeveral = std::numeric_limits<std::uint64_t>::max();

  bool is_index(double number) const;
  std::uint64_t place_of(std::uint64_t element) const;
  std::uint64_t named_by(std::uint64_t element, const Value& indices) const;
  Named named_in_lines(const Value& chosen, std::span<const std::uint64_t> elements) const;

  std::uint32_t value_;
  std::size_t dim_;
  Value scores_;  // lines of them, in the last dimension
  Value places_;  // of each element of the result: line · kept_ + place among the chosen ones
  std::uint64_t kept_;
  bool ordered_;               // whether the chosen ones come in the order of their scores
  bool largest_;               // whether the largest scores are chosen
  std::vector<double> reach_;  // of each line: how far roundings moved a score at most
};

}  // namespace ttrace::specification
