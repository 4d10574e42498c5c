#include "specification/evaluate/narrow_factors.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "specification/primitives/casts.h"
#include "specification/primitives/products.h"

namespace ttrace::specification {

bool NarrowFactors::round_in(Expression& expression) {
  if (!products_.any()) return false;
  const std::size_t leaves = expression.leaves.size();
  const auto shape_of = [&](std::uint32_t value) -> const tensor::Shape& {
    if (value >= leaves) return expression.steps[value - leaves].node->shape;
    return expression.specification->tensors[expression.leaves[value].tensor].shape;
  };
  std::vector<std::uint32_t> moved(leaves + expression.steps.size());  // value -> its new number
  for (std::size_t l = 0; l < leaves; ++l) moved[l] = static_cast<std::uint32_t>(l);
  std::vector<Step> steps;
  std::map<std::pair<std::uint32_t, tensor::DType>, std::uint32_t> roundings;
  const auto add = [&](Step step) {
    steps.push_back(std::move(step));
    return static_cast<std::uint32_t>(leaves + steps.size() - 1);
  };
  for (std::size_t s = 0; s < expression.steps.size(); ++s) {
    Step step = expression.steps[s];
    const std::optional<tensor::DType> narrow = type_of_factors(*step.node);
    for (std::uint32_t& argument : step.arguments) {
      const std::uint32_t value = argument;
      argument = moved[value];
      if (!narrow) continue;
      const auto [known, fresh] = roundings.try_emplace({value, *narrow}, 0);
      if (fresh) known->second = add({&rounding_to(*narrow, shape_of(value)), {moved[value]}});
      argument = known->second;
    }
    moved[leaves + s] = add(std::move(step));
  }
  if (roundings.empty()) return false;
  expression.steps = std::move(steps);
  expression.result = moved[expression.result];
  return true;
}

std::optional<tensor::DType> NarrowFactors::type_of_factors(const Node& node) const {
  const std::string* const setting = factors_of(node.attributes);
  if (setting == nullptr || node.dtype != tensor::DType::kFloat32) return std::nullopt;
  return *setting == kConvolutionFactors ? products_.convolution : products_.matmul;
}

const Node& NarrowFactors::rounding_to(tensor::DType dtype, const tensor::Shape& shape) {
  Node& node = roundings_[{dtype, shape}];
  if (node.primitive == nullptr) {
    node.primitive = &rounding_primitive();
    node.arguments = {0};
    node.dtype = dtype;
    node.shape = shape;
  }
  return node;
}

}  // namespace ttrace::specification
