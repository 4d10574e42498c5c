// The rules of shapes over every use of a pattern.
#pragma once

#include <string>

#include "specification/specification.h"

namespace ttrace::specification {

// Throws an input error naming node and tensor if the shape of a node contradicts that of its
// arguments, or a pattern's result that of a tensor which it computes. Every pattern is checked
// once for each combination of input shapes, and so is every variant. `file` is used in messages
// only.
void check_shapes(const Specification& specification, const std::string& file);

// Calls the rule of a node's primitive. Throws ShapeProblem if the arguments do not fit, or the
// result is not of the declared shape.
tensor::Shape shape_of(const Node& node, std::span<const tensor::Shape* const> arguments);

}  // namespace ttrace::specification
