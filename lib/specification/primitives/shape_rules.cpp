#include "specification/primitives/shape_rules.h"

#include <algorithm>

#include "base/text.h"

namespace ttrace::specification {

using base::concat;
using tensor::Shape;

bool fits(std::uint64_t a, std::uint64_t b) { return a == b || a == kAnyExtent || b == kAnyExtent; }

bool fits(const Shape& a, const Shape& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](std::uint64_t x, std::uint64_t y) { return fits(x, y); });
}

std::uint64_t known(std::uint64_t a, std::uint64_t b) { return a == kAnyExtent ? b : a; }

Shape known(const Shape& a, const Shape& b) {
  Shape result(a.size());
  for (std::size_t d = 0; d < a.size(); ++d) result[d] = known(a[d], b[d]);
  return result;
}

std::uint64_t count_of(const Shape& shape) {
  const auto count = tensor::element_count(shape);
  if (!count) throw shape_error(describe_shape(shape), " has too many elements");
  return *count;
}

bool is_open(const Shape& shape) {
  return std::find(shape.begin(), shape.end(), kAnyExtent) != shape.end();
}

std::string describe_shape(const Shape& shape) {
  std::string text = "[";
  for (const std::uint64_t extent : shape) {
    if (text.size() > 1) text += ", ";
    text += extent == kAnyExtent ? "?" : concat(extent);
  }
  return text + "]";
}

const Shape& argument(const ShapeCall& call, std::size_t position) {
  return *call.arguments[position];
}

std::size_t dimension(const ShapeCall& call, std::string_view name, const Shape& shape) {
  const std::int64_t dim = call.attributes.integer(name);
  if (dim < 0 || static_cast<std::uint64_t>(dim) >= shape.size()) {
    throw shape_error("\"", name, "\" is ", dim, ", but there are ", shape.size(), " dimensions");
  }
  return static_cast<std::size_t>(dim);
}

std::vector<char> dimensions(const ShapeCall& call, std::string_view name, const Shape& shape) {
  std::vector<char> chosen(shape.size(), 0);
  for (const std::size_t dim : call.attributes.dims(name)) {
    if (dim >= shape.size() || chosen[dim] != 0) {
      throw shape_error("\"", name, "\" holds ", dim, dim < shape.size() ? " twice" : "", ", of ",
                        shape.size(), " dimensions");
    }
    chosen[dim] = 1;
  }
  return chosen;
}

Shape broadcast(const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape result = longer;
  const std::size_t added = longer.size() - shorter.size();
  for (std::size_t d = 0; d < shorter.size(); ++d) {
    std::uint64_t& extent = result[added + d];
    const std::uint64_t other = shorter[d];
    if (extent == 1) {
      extent = other;
    } else if (other != 1) {
      if (!fits(extent, other)) {
        throw shape_error(describe_shape(a), " and ", describe_shape(b), " do not broadcast");
      }
      extent = known(extent, other);
    }
  }
  return result;
}

void require_fit(std::string_view what, const Shape& found, const Shape& expected) {
  if (!fits(found, expected)) {
    throw shape_error(what, " is ", describe_shape(found), " instead of ",
                      describe_shape(expected));
  }
}

Shape broadcast_rule(const ShapeCall& call) {
  Shape result;
  for (const Shape* shape : call.arguments) {
    if (shape != nullptr) result = broadcast(result, *shape);
  }
  return result;
}

Shape like_first_rule(const ShapeCall& call) {
  for (const Shape* shape : call.arguments) {
    if (shape != nullptr) require_fit("an argument", *shape, argument(call, 0));
  }
  return argument(call, 0);
}

}  // namespace ttrace::specification
