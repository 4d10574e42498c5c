#include "specification/check_shapes.h"

#include <map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "specification/primitives/shape_rules.h"

namespace ttrace::specification {
namespace {

using tensor::Shape;

// The most nodes and arguments that are checked. No model needs as many: a pattern is used with few
// combinations of shapes.
constexpr std::uint64_t kMostChecks = 100'000'000;

// Gives each shape a number, so that a pattern with many inputs does not keep many copies of a
// shape.
class ShapeNumbers {
 public:
  std::uint32_t of(Shape shape) {
    const auto [known, fresh] =
        numbers_.try_emplace(std::move(shape), static_cast<std::uint32_t>(shapes_.size()));
    if (fresh) shapes_.push_back(&known->first);
    return known->second;
  }
  const Shape& shape(std::uint32_t number) const { return *shapes_[number]; }

 private:
  std::map<Shape, std::uint32_t> numbers_;
  std::vector<const Shape*> shapes_;
};

void check_part(const Specification& specification, const std::string& where,
                std::uint64_t& checks) {
  ShapeNumbers shapes;
  std::map<std::pair<std::uint32_t, std::vector<std::uint32_t>>, std::uint32_t> results;
  for (std::size_t t = 0; t < specification.tensors.size(); ++t) {
    const SpecifiedTensor& tensor = specification.tensors[t];
    if (tensor.same && !fits(tensor.shape, specification.tensors[*tensor.same].shape)) {
      throw base::input_error(where, "/tensors/", t, ": the shape is ",
                              describe_shape(tensor.shape), ", that of \"same\" is ",
                              describe_shape(specification.tensors[*tensor.same].shape));
    }
    if (!tensor.pattern) continue;
    std::vector<std::uint32_t> values;
    values.reserve(tensor.from.size());
    for (const std::uint32_t input : tensor.from) {
      values.push_back(shapes.of(specification.tensors[input].shape));
    }
    const auto [result, fresh] = results.try_emplace({*tensor.pattern, values});
    if (fresh) {
      const Pattern& pattern = specification.patterns[*tensor.pattern];
      checks += values.size();
      for (const Node& node : pattern.nodes) checks += 1 + node.arguments.size();
      if (checks > kMostChecks) {
        throw base::input_error(where, "/tensors/", t, ": the patterns are used with more than ",
                                kMostChecks, " combinations of nodes and shapes");
      }
      for (std::size_t n = 0; n < pattern.nodes.size(); ++n) {
        std::vector<const Shape*> arguments;
        for (const std::uint32_t argument : pattern.nodes[n].arguments) {
          arguments.push_back(&shapes.shape(values[argument]));
        }
        try {
          values.push_back(shapes.of(shape_of(pattern.nodes[n], arguments)));
        } catch (const ShapeProblem& problem) {
          throw base::input_error(where, "/patterns/", *tensor.pattern, "/nodes/", n, ": ",
                                  pattern.nodes[n].primitive->name, ": ", problem.reason,
                                  " (used by /tensors/", t, ")");
        }
      }
      result->second = values.back();
    }
    if (!fits(shapes.shape(result->second), tensor.shape)) {
      throw base::input_error(where, "/tensors/", t, ": the shape is ",
                              describe_shape(tensor.shape), ", that of its pattern's result ",
                              describe_shape(shapes.shape(result->second)));
    }
  }
}

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
  std::uint64_t checks = 0;
  check_part(specification, base::concat(file, ": "), checks);
  for (std::size_t i = 0; i < specification.variants.size(); ++i) {
    check_part(specification.variants[i], base::concat(file, ": /variants/", i), checks);
  }
  for (std::size_t i = 0; i < specification.updates.size(); ++i) {
    check_part(specification.updates[i], base::concat(file, ": /updates/", i), checks);
  }
}

}  // namespace ttrace::specification
