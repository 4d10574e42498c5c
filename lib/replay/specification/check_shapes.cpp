#include "replay/specification/check_shapes.h"

#include <map>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "replay/primitives/shape_rules.h"

namespace ttrace::replay {
namespace {

using tensor::Shape;

// More than any model needs: patterns are used with few combinations of shapes.
constexpr std::uint64_t kMostChecks = 40'000'000;

}  // namespace

Shape shape_of(const Node& node, std::span<const Shape* const> arguments) {
  const Primitive& primitive = *node.primitive;
  const std::vector<std::size_t> slots =
      argument_slots(primitive, node.attributes, arguments.size());
  std::vector<const Shape*> by_name(
      primitive.variadic ? arguments.size() : primitive.arguments.size(), nullptr);
  for (std::size_t i = 0; i < slots.size(); ++i) by_name[slots[i]] = arguments[i];
  const Shape found = primitive.shape({node.attributes, by_name, node.shape});
  require_fit("the result", found, node.shape);
  return known(found, node.shape);
}

void check_shapes(const Specification& specification, const std::string& file) {
  std::map<std::pair<std::uint32_t, std::vector<Shape>>, Shape> results;
  std::uint64_t checks = 0;
  for (std::size_t t = 0; t < specification.tensors.size(); ++t) {
    const SpecifiedTensor& tensor = specification.tensors[t];
    if (tensor.same && !fits(tensor.shape, specification.tensors[*tensor.same].shape)) {
      throw base::input_error(file, ": /tensors/", t, ": the shape is ",
                              describe_shape(tensor.shape), ", that of \"same\" is ",
                              describe_shape(specification.tensors[*tensor.same].shape));
    }
    if (!tensor.pattern) continue;
    std::vector<Shape> values;
    for (const std::uint32_t input : tensor.from) {
      values.push_back(specification.tensors[input].shape);
    }
    const auto [result, fresh] = results.try_emplace({*tensor.pattern, values});
    if (fresh) {
      const Pattern& pattern = specification.patterns[*tensor.pattern];
      checks += pattern.nodes.size();
      if (checks > kMostChecks) {
        throw base::input_error(file, ": /tensors/", t, ": the patterns are used with more than ",
                                kMostChecks, " combinations of nodes and shapes");
      }
      for (std::size_t n = 0; n < pattern.nodes.size(); ++n) {
        std::vector<const Shape*> arguments;
        for (const std::uint32_t argument : pattern.nodes[n].arguments) {
          arguments.push_back(&values[argument]);
        }
        try {
          Shape shape = shape_of(pattern.nodes[n], arguments);
          values.push_back(std::move(shape));
        } catch (const ShapeProblem& problem) {
          throw base::input_error(file, ": /patterns/", *tensor.pattern, "/nodes/", n, ": ",
                                  pattern.nodes[n].primitive->name, ": ", problem.reason,
                                  " (used by /tensors/", t, ")");
        }
      }
      result->second = values.back();
    }
    if (!fits(result->second, tensor.shape)) {
      throw base::input_error(file, ": /tensors/", t, ": the shape is ",
                              describe_shape(tensor.shape), ", that of its pattern's result ",
                              describe_shape(result->second));
    }
  }
}

}  // namespace ttrace::replay
