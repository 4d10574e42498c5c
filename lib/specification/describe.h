// Parts of a specification in words.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "specification/expression.h"
#include "specification/specification.h"

namespace ttrace::specification {

// "output of layers.0.norm1, call 1".
std::string describe_tensor(const Specification& specification, std::size_t tensor);

// "1e-05", "true", "[1, 0]": an attribute's value, of a list the first `most` items.
std::string describe_attribute(const Attributes::Content& content, std::size_t most = 8);

// "layer_norm(1, 2, 3), count 1, eps 1e-05", where `arguments` are the names of the values it
// takes.
std::string describe_call(const Node& node, const std::vector<std::string>& arguments);

// "matmul, add of output layers.0.norm1 and param layers.0.fc1.weight".
std::string describe_expression(const Expression& expression);

// "a, b, c and 4 more", with `between` in the place of the commas.
std::string list_some(const std::vector<std::string>& items, std::size_t most,
                      std::string_view between);

}  // namespace ttrace::specification
