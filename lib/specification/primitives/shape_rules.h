// What the shape rules of the primitives share. All of them throw ShapeProblem.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "specification/primitives/primitive.h"

namespace ttrace::specification {

// Whether two extents can be one: they are equal, or one of them is open.
bool fits(std::uint64_t a, std::uint64_t b);
bool fits(const tensor::Shape& a, const tensor::Shape& b);
// The more definite of two extents or shapes that fit.
std::uint64_t known(std::uint64_t a, std::uint64_t b);
tensor::Shape known(const tensor::Shape& a, const tensor::Shape& b);

// Whether an extent is not known.
bool is_open(const tensor::Shape& shape);

// The elements of a shape that is known.
std::uint64_t count_of(const tensor::Shape& shape);

// "[8, ?]".
std::string describe_shape(const tensor::Shape& shape);

// The shape of the argument, which must be given.
const tensor::Shape& argument(const ShapeCall& call, std::size_t position);
// The attribute of that name, which must be a dimension of `shape`.
std::size_t dimension(const ShapeCall& call, std::string_view name, const tensor::Shape& shape);
// The list of distinct dimensions of `shape`, as one flag per dimension.
std::vector<char> dimensions(const ShapeCall& call, std::string_view name,
                             const tensor::Shape& shape);

// The common shape of numpy's broadcasting.
tensor::Shape broadcast(const tensor::Shape& a, const tensor::Shape& b);
void require_fit(std::string_view what, const tensor::Shape& found, const tensor::Shape& expected);

// Rules of whole families: the arguments broadcast; the result is like the first argument.
tensor::Shape broadcast_rule(const ShapeCall& call);
tensor::Shape like_first_rule(const ShapeCall& call);

}  // namespace ttrace::specification
