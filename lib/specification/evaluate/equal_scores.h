// Choices among equal scores. The kernel decides which of several elements with one score topk and
// sort name first. Simulated roundings do not show this: -inf of a mask and 0 of a relu stay equal.
// Where roundings changed the scores, a chosen element has a score near the expected one: if scores
// are off by δ at most, so is the j-th largest of them.
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

// The roundings of a run may move a score this many times as far as those of the draws.
inline constexpr double kReach = 3;

// The scores from which a topk or sort chose indices.
class EqualScores {
 public:
  // Returns nothing if the result is not the indices of a topk or of a sort, cut or reshaped at
  // most. Throws as evaluate() does.
  static std::optional<EqualScores> of(const Expression& expression, std::span<const Value> leaves,
                                       const measure::ExecutionContext& context,
                                       const ValueSharing* sharing);

  // If the choice has no order, returns `chosen` in that of `expected`: elements that both name
  // stand where `expected` names them, the rest by falling score. Returns `chosen` as it is if the
  // choice has an order, or the result lacks some of it.
  Value in_order_of(const Value& chosen, const Value& expected) const;

  // Returns the row-major indices of the elements of `chosen` that differ from `expected`. One that
  // names another element of equal score, which its line names nowhere else, does not differ. NaN
  // equals no score. Both have the shape of the result and are dense.
  std::vector<std::uint64_t> different(const Value& chosen, const Value& expected) const;

  // Whether the choice has an order.
  bool ordered() const { return ordered_; }
  // The scores' number among the values of the expression.
  std::uint32_t value() const { return value_; }
  // Adds the scores of one draw of simulated roundings.
  void add_draw(const Value& moved);
  // Whether roundings kReach times as large as those of the draws may explain the elements
  // `different` of `chosen`: each names an element that its line names nowhere else, and whose
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
