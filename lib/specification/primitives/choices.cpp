// Choices by size: top-k, sort, one-hot and elements that are not zero.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "specification/primitives/families.h"
#include "specification/primitives/loops.h"
#include "specification/primitives/shape_rules.h"

namespace ttrace::specification {
namespace {

using tensor::Shape;

Shape one_hot_shape(const ShapeCall& call) {
  const std::int64_t classes = call.attributes.integer("classes");
  if (classes < 0) throw shape_error("\"classes\" is negative");
  Shape shape = argument(call, 0);
  shape.push_back(static_cast<std::uint64_t>(classes));
  return shape;
}

Shape top_shape(const ShapeCall& call) {
  Shape shape = argument(call, 0);
  const std::size_t dim = dimension(call, "dim", shape);
  const std::int64_t k = call.attributes.integer("k");
  if (k < 0 || (shape[dim] != kAnyExtent && static_cast<std::uint64_t>(k) > shape[dim])) {
    throw shape_error("\"k\" is ", k, ", of ", describe_shape(shape));
  }
  shape[dim] = static_cast<std::uint64_t>(k);
  return shape;
}

Shape sort_shape(const ShapeCall& call) {
  dimension(call, "dim", argument(call, 0));
  return argument(call, 0);
}

// How many elements there are is a fact of the data, and the node declares it.
Shape nonzero_shape(const ShapeCall& call) {
  if (call.declared.size() != 2 || call.declared[1] != argument(call, 0).size()) {
    throw shape_error("the places in ", describe_shape(argument(call, 0)), " have ",
                      argument(call, 0).size(), " columns, not the shape ",
                      describe_shape(call.declared));
  }
  if (call.declared[0] == kAnyExtent) throw shape_error("how many places there are is open");
  return call.declared;
}

Value nonzero(const EvaluationCall& call) {
  const Value x = call.arguments[0]->to_dense();
  const auto zeros = std::count(x.data(), x.data() + x.size(), 0.0);
  const std::uint64_t found = x.size() - static_cast<std::uint64_t>(zeros);
  if (found != call.shape[0]) {
    throw base::input_error("its sizes depend on data: ", found, " elements are chosen here, ",
                            call.shape[0], " in the specification");
  }
  Value result = Value::uninitialised(call.shape);
  double* place = result.fresh();
  const std::size_t dims = x.shape().size();
  for (std::uint64_t i = 0; i < x.size(); ++i) {
    if (x.data()[i] == 0) continue;
    std::uint64_t rest = i;
    for (std::size_t d = dims; d-- > 0; rest /= x.shape()[d]) {
      place[d] = static_cast<double>(rest % x.shape()[d]);
    }
    place += dims;
  }
  return result;
}

Value one_hot(const EvaluationCall& call) {
  const Value x = call.arguments[0]->to_dense();
  Value result = Value::zeros(call.shape);
  const std::uint64_t classes = call.shape.back();
  for (std::uint64_t i = 0; i < x.size(); ++i) {
    const double at = x.data()[i];
    if (at >= 0 && at < static_cast<double>(classes)) {
      result.fresh()[i * classes + static_cast<std::uint64_t>(at)] = 1;
    }
  }
  return result;
}

// The first elements of every line in order: their values or their indices. NaN counts as largest.
// Equal elements stand in the order in which one meets them from `from` on, a share of the line's
// length, wrapping around at its end.
Value ordered(const EvaluationCall& call, bool descending, bool indices, double from) {
  const auto dim = static_cast<std::size_t>(call.attributes.integer("dim"));
  const Value x = with_last(*call.arguments[0], dim);
  const std::uint64_t n = x.shape().back();
  const std::uint64_t kept = call.shape[dim];
  Shape shape = x.shape();
  shape.back() = kept;
  Value result = Value::uninitialised(shape);
  if (x.size() == 0) return with_last_at(result, dim);
  const auto start = static_cast<std::uint64_t>(from * static_cast<double>(n));
  for_rows(call.context, x.size() / n, n * 8, [&](std::uint64_t begin, std::uint64_t end) {
    std::vector<std::uint64_t> order(n);
    for (std::uint64_t r = begin; r < end; ++r) {
      const double* line = x.data() + r * n;
      std::iota(order.begin(), order.end(), std::uint64_t{0});
      const auto before = [line, descending, start](std::uint64_t a, std::uint64_t b) {
        const double left = descending ? line[a] : line[b];
        const double right = descending ? line[b] : line[a];
        const bool larger = left > right || (std::isnan(left) && !std::isnan(right));
        const bool smaller = right > left || (std::isnan(right) && !std::isnan(left));
        if (larger || smaller) return larger;
        return (a < start) == (b < start) ? a < b : b < start;
      };
      const auto middle = order.begin() + static_cast<std::ptrdiff_t>(kept);
      std::partial_sort(order.begin(), middle, order.end(), before);
      for (std::uint64_t i = 0; i < kept; ++i) {
        result.fresh()[r * kept + i] = indices ? static_cast<double>(order[i]) : line[order[i]];
      }
    }
  });
  return with_last_at(result, dim);
}

template <bool indices>
Value top(const EvaluationCall& call) {
  // torch does not say which of equal elements its kernel chooses.
  return ordered(call, call.attributes.flag("largest"), indices, call.ties);
}
template <bool indices>
Value sort(const EvaluationCall& call) {
  return ordered(call, call.attributes.flag("descending"), indices, 0);
}

Primitive naming_places(Primitive primitive) {
  primitive.names_places = true;
  return primitive;
}

}  // namespace

std::vector<Primitive> choice_primitives() {
  using enum AttributeType;
  using enum Rounding;
  const std::vector<AttributeRule> top_k{
      {"dim", kInteger}, {"k", kInteger}, {"largest", kFlag}, {"sorted", kFlag, false}};
  const std::vector<AttributeRule> order{{"dim", kInteger}, {"descending", kFlag}};
  std::vector<Primitive> all{
      entry("one_hot", {"x"}, 1, {{"classes", kInteger}}, kExact, one_hot_shape, one_hot),
      entry("nonzero", {"x"}, 1, {}, kExact, nonzero_shape, nonzero),
      entry("top_values", {"x"}, 1, top_k, kExact, top_shape, top<false>),
      naming_places(entry("top_indices", {"x"}, 1, top_k, kExact, top_shape, top<true>)),
      entry("sort_values", {"x"}, 1, order, kExact, sort_shape, sort<false>),
      naming_places(entry("sort_indices", {"x"}, 1, order, kExact, sort_shape, sort<true>)),
  };
  for (Primitive& primitive : all) primitive.shape_is_layout = true;
  return all;
}

}  // namespace ttrace::specification
