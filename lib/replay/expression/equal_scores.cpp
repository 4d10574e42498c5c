#include "replay/expression/equal_scores.h"

#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "replay/expression/evaluation.h"
#include "replay/primitives/loops.h"
#include "replay/specification/check_shapes.h"

namespace ttrace::replay {
namespace {

// Of each of the elements that are chosen, its line and its place there, as one number.
Value places_of(const Value& chosen, std::size_t dim) {
  const Value lines = with_last(chosen, dim);
  Value places = Value::uninitialised(lines.shape());
  std::iota(places.fresh(), places.fresh() + places.size(), 0.0);
  return with_last_at(places, dim);
}

// Moves what a step moves; a cast changes no place.
Value after_move(const Step& step, const Value& value, const measure::ExecutionContext& context) {
  const Node& node = *step.node;
  if (node.primitive->name == "cast") return value;
  const std::array<const tensor::Shape*, 1> shapes{&value.shape()};
  const std::array<const Value*, 1> arguments{&value};
  const std::array<tensor::DType, 1> dtypes{node.dtype};
  const tensor::Shape shape = shape_of(node, shapes);
  return node.primitive->evaluate(
      {node.attributes, arguments, dtypes, shape, node.dtype, context, nullptr});
}

}  // namespace

EqualScores::EqualScores(Value scores, Value places, std::uint64_t kept)
    : scores_(std::move(scores)), places_(std::move(places)), kept_(kept) {}

std::optional<EqualScores> EqualScores::of(const Expression& expression,
                                           std::span<const Value> leaves,
                                           const measure::ExecutionContext& context,
                                           const Sharing* sharing) {
  static const std::set<std::string_view> kMoves{"reshape", "permute", "expand",
                                                 "slice",   "flip",    "cast"};
  static const std::set<std::string_view> kChoices{"top_indices", "sort_indices"};
  const std::size_t first = expression.leaves.size();
  std::vector<const Step*> moves;
  std::uint32_t choice = expression.result;
  while (choice >= first &&
         kMoves.contains(expression.steps[choice - first].node->primitive->name)) {
    moves.push_back(&expression.steps[choice - first]);
    choice = moves.back()->arguments.front();
  }
  if (choice < first) return std::nullopt;
  const Step& step = expression.steps[choice - first];
  if (!kChoices.contains(step.node->primitive->name)) return std::nullopt;
  const auto dim = static_cast<std::size_t>(step.node->attributes.integer("dim"));
  const std::uint32_t wanted[] = {step.arguments.front(), choice};
  const std::vector<Value> values =
      evaluate_values(expression, leaves, wanted, std::nullopt, context, nullptr, sharing);
  Value places = places_of(values[1], dim);
  for (auto move = moves.rbegin(); move != moves.rend(); ++move) {
    places = after_move(**move, places, context);
  }
  return EqualScores(with_last(values[0], dim).to_dense(), places.to_dense(),
                     values[1].shape()[dim]);
}

std::vector<std::uint64_t> EqualScores::different(const Value& chosen,
                                                  const Value& expected) const {
  const std::uint64_t length = scores_.shape().back();
  const auto place_of = [this](std::uint64_t i) {
    return static_cast<std::uint64_t>(places_.data()[i]);
  };
  const auto is_index = [&chosen, length](std::uint64_t i) {
    const double index = chosen.data()[i];
    return index >= 0 && index < static_cast<double>(length) && index == std::floor(index);
  };
  const auto element_of = [&](std::uint64_t i, const Value& indices) {
    return place_of(i) / kept_ * length + static_cast<std::uint64_t>(indices.data()[i]);
  };
  std::vector<std::uint64_t> unequal;
  std::unordered_set<std::uint64_t> lines;
  for (std::uint64_t i = 0; i < chosen.size(); ++i) {
    if (chosen.data()[i] == expected.data()[i]) continue;
    unequal.push_back(i);
    lines.insert(place_of(i) / kept_);
  }
  // The elements of scores_ that are chosen, and at which place of the result.
  const std::uint64_t several = scores_.size();
  std::unordered_map<std::uint64_t, std::uint64_t> places;
  for (std::uint64_t i = 0; i < chosen.size() && !unequal.empty(); ++i) {
    if (!lines.contains(place_of(i) / kept_) || !is_index(i)) continue;
    const auto [known, fresh] = places.try_emplace(element_of(i, chosen), place_of(i));
    if (!fresh && known->second != place_of(i)) known->second = several;
  }
  std::erase_if(unequal, [&](std::uint64_t i) {
    if (!is_index(i)) return false;
    const std::uint64_t element = element_of(i, chosen);
    return places.at(element) != several &&
           scores_.data()[element] == scores_.data()[element_of(i, expected)];
  });
  return unequal;
}

}  // namespace ttrace::replay
