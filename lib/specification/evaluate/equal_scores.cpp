#include "specification/evaluate/equal_scores.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "specification/check_shapes.h"
#include "specification/evaluate/evaluation.h"
#include "specification/primitives/loops.h"

namespace ttrace::specification {
namespace {

// Returns for each chosen element its line and its place there, as one number.
Value places_of(const Value& chosen, std::size_t dim) {
  const Value lines = with_last(chosen, dim);
  Value places = Value::uninitialised(lines.shape());
  std::iota(places.fresh(), places.fresh() + places.size(), 0.0);
  return with_last_at(places, dim);
}

// Moves what a step moves; rounding changes no place.
Value after_move(const Step& step, const Value& value, const measure::ExecutionContext& context) {
  const Node& node = *step.node;
  if (node.primitive->rounding != Rounding::kExact) return value;
  const std::array<const tensor::Shape*, 1> shapes{&value.shape()};
  const std::array<const Value*, 1> arguments{&value};
  const std::array<tensor::DType, 1> dtypes{node.dtype};
  const tensor::Shape shape = shape_of(node, shapes);
  return node.primitive->evaluate(
      {node.attributes, arguments, dtypes, shape, node.dtype, context, nullptr});
}

}  // namespace

EqualScores::EqualScores(std::uint32_t value, std::size_t dim, const Value& scores, Value places,
                         std::uint64_t kept, bool ordered, bool largest)
    : value_(value),
      dim_(dim),
      scores_(with_last(scores, dim).to_dense()),
      places_(std::move(places)),
      kept_(kept),
      ordered_(ordered),
      largest_(largest),
      reach_(scores_.size() / std::max<std::uint64_t>(scores_.shape().back(), 1), 0.0) {}

bool EqualScores::is_index(double number) const {
  return number >= 0 && number < static_cast<double>(scores_.shape().back()) &&
         number == std::floor(number);
}

std::uint64_t EqualScores::place_of(std::uint64_t element) const {
  return static_cast<std::uint64_t>(places_.data()[element]);
}

// Returns the element of scores_ that this element of the indices names.
std::uint64_t EqualScores::named_by(std::uint64_t element, const Value& indices) const {
  return place_of(element) / kept_ * scores_.shape().back() +
         static_cast<std::uint64_t>(indices.data()[element]);
}

void EqualScores::add_draw(const Value& moved_scores) {
  const Value moved = with_last(moved_scores, dim_).to_dense();
  const std::uint64_t length = scores_.shape().back();
  for (std::uint64_t i = 0; i < scores_.size(); ++i) {
    const double apart = std::abs(moved.data()[i] - scores_.data()[i]);
    if (std::isfinite(apart)) reach_[i / length] = std::max(reach_[i / length], apart);
  }
}

// Returns all that `chosen` names in the lines of `elements`.
EqualScores::Named EqualScores::named_in_lines(const Value& chosen,
                                               std::span<const std::uint64_t> elements) const {
  std::unordered_set<std::uint64_t> lines;
  for (const std::uint64_t i : elements) lines.insert(place_of(i) / kept_);
  Named named;
  if (lines.empty()) return named;
  for (std::uint64_t i = 0; i < chosen.size(); ++i) {
    if (!is_index(chosen.data()[i]) || !lines.contains(place_of(i) / kept_)) continue;
    const auto [known, fresh] = named.try_emplace(named_by(i, chosen), place_of(i));
    if (!fresh && known->second != place_of(i)) known->second = kSeveral;
  }
  return named;
}

std::optional<EqualScores> EqualScores::of(const Expression& expression,
                                           std::span<const Value> leaves,
                                           const measure::ExecutionContext& context,
                                           const ValueSharing* sharing) {
  const std::size_t first = expression.leaves.size();
  std::vector<const Step*> moves;
  std::uint32_t choice = expression.result;
  while (choice >= first && expression.steps[choice - first].node->primitive->move != Move::kNone) {
    moves.push_back(&expression.steps[choice - first]);
    choice = moves.back()->arguments.front();
  }
  if (choice < first) return std::nullopt;
  const Step& step = expression.steps[choice - first];
  if (!step.node->primitive->names_places) return std::nullopt;
  const auto dim = static_cast<std::size_t>(step.node->attributes.integer("dim"));
  const std::uint32_t wanted[] = {step.arguments.front(), choice};
  const std::vector<Value> values =
      evaluate_values(expression, leaves, wanted, std::nullopt, context, nullptr, sharing);
  Value places = places_of(values[1], dim);
  for (auto move = moves.rbegin(); move != moves.rend(); ++move) {
    places = after_move(**move, places, context);
  }
  const Attributes& facts = step.node->attributes;
  const bool ordered = !facts.has("sorted") || facts.flag("sorted");
  const bool largest = !facts.has("largest") || facts.flag("largest");
  return EqualScores(step.arguments.front(), dim, values[0], places.to_dense(),
                     values[1].shape()[dim], ordered, largest);
}

Value EqualScores::in_order_of(const Value& chosen, const Value& expected) const {
  const std::uint64_t length = scores_.shape().back();
  const std::uint64_t lines = length == 0 ? 0 : scores_.size() / length;
  if (ordered_ || chosen.size() != lines * kept_) return chosen;
  std::vector<std::uint64_t> element_at(chosen.size(), chosen.size());  // by place
  for (std::uint64_t i = 0; i < chosen.size(); ++i) {
    if (!is_index(chosen.data()[i])) return chosen;
    if (std::exchange(element_at[place_of(i)], i) != chosen.size()) return chosen;
  }
  Value result = Value::zeros(chosen.shape());
  for (std::uint64_t line = 0; line < lines; ++line) {
    const auto line_of = [&](const Value& indices) {
      std::vector<double> named;
      for (std::uint64_t k = 0; k < kept_; ++k) {
        named.push_back(indices.data()[element_at[line * kept_ + k]]);
      }
      return named;
    };
    std::vector<double> wanted = line_of(expected);
    std::multiset<double> rest;
    for (const double index : line_of(chosen)) rest.insert(index);
    std::vector<std::uint64_t> open;
    for (std::uint64_t k = 0; k < kept_; ++k) {
      const auto found = rest.find(wanted[k]);
      if (found == rest.end()) {
        open.push_back(k);
      } else {
        rest.erase(found);
      }
    }
    std::vector<double> others(rest.begin(), rest.end());
    std::stable_sort(others.begin(), others.end(), [&](double one, double other) {
      const double left = scores_.data()[line * length + static_cast<std::uint64_t>(one)];
      const double right = scores_.data()[line * length + static_cast<std::uint64_t>(other)];
      return largest_ ? left > right : left < right;
    });
    for (std::size_t n = 0; n < open.size(); ++n) wanted[open[n]] = others[n];
    for (std::uint64_t k = 0; k < kept_; ++k) {
      result.fresh()[element_at[line * kept_ + k]] = wanted[k];
    }
  }
  return result;
}

std::vector<std::uint64_t> EqualScores::different(const Value& chosen,
                                                  const Value& expected) const {
  std::vector<std::uint64_t> unequal;
  for (std::uint64_t i = 0; i < chosen.size(); ++i) {
    if (chosen.data()[i] != expected.data()[i]) unequal.push_back(i);
  }
  const Named named = named_in_lines(chosen, unequal);
  std::erase_if(unequal, [&](std::uint64_t i) {
    if (!is_index(chosen.data()[i])) return false;
    const std::uint64_t element = named_by(i, chosen);
    return named.at(element) != kSeveral &&
           scores_.data()[element] == scores_.data()[named_by(i, expected)];
  });
  return unequal;
}

bool EqualScores::may_be_rounding(const Value& chosen, const Value& expected,
                                  std::span<const std::uint64_t> different) const {
  const Named named = named_in_lines(chosen, different);
  return std::all_of(different.begin(), different.end(), [&](std::uint64_t i) {
    if (!is_index(chosen.data()[i])) return false;
    const std::uint64_t element = named_by(i, chosen);
    const double score = scores_.data()[element];
    const double wanted = scores_.data()[named_by(i, expected)];
    // Doubled, because two scores may have moved: the chosen one, and the one that the order has
    // there.
    const double reach = 2 * kReach * reach_[place_of(i) / kept_];
    return named.at(element) != kSeveral && (score == wanted || std::abs(score - wanted) <= reach);
  });
}

}  // namespace ttrace::specification
