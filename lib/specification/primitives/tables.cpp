// Rows chosen by index, and additions at an index: embeddings, gather and scatter.
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "specification/primitives/families.h"
#include "specification/primitives/loops.h"
#include "specification/primitives/shape_rules.h"

namespace ttrace::specification {
namespace {

using tensor::Shape;

Shape embedding_shape(const ShapeCall& call) {
  const Shape& weight = argument(call, 0);
  if (weight.empty()) throw shape_error("the weight needs a dimension");
  Shape shape = argument(call, 1);
  shape.insert(shape.end(), weight.begin() + 1, weight.end());
  return shape;
}

Shape embedding_grad_shape(const ShapeCall& call) {
  const Shape& g = argument(call, 0);
  const Shape& ids = argument(call, 1);
  if (g.size() < ids.size()) throw shape_error("g has fewer dimensions than ids");
  const auto cut = static_cast<std::ptrdiff_t>(ids.size());
  require_fit("g", Shape(g.begin(), g.begin() + cut), ids);
  const std::int64_t rows = call.attributes.integer("rows");
  if (rows < 0) throw shape_error("\"rows\" is negative");
  Shape shape{static_cast<std::uint64_t>(rows)};
  shape.insert(shape.end(), g.begin() + cut, g.end());
  return shape;
}

Shape gather_shape(const ShapeCall& call) {
  const Shape& x = argument(call, 0);
  dimension(call, "dim", x);
  if (argument(call, 1).size() != x.size()) {
    throw shape_error("the index has another number of dimensions than x");
  }
  return argument(call, 1);
}

// `part` may be smaller than `whole` in every dimension but `dim`, which does not matter.
void require_within(const Shape& part, const Shape& whole, std::size_t dim) {
  for (std::size_t d = 0; d < whole.size(); ++d) {
    if (d != dim && part[d] != kAnyExtent && whole[d] != kAnyExtent && part[d] > whole[d]) {
      throw shape_error("the index is larger than x");
    }
  }
}

Shape gather_checked_shape(const ShapeCall& call) {
  const Shape shape = gather_shape(call);
  require_within(shape, argument(call, 0), dimension(call, "dim", argument(call, 0)));
  return shape;
}

Shape scatter_add_shape(const ShapeCall& call) {
  const Shape& x = argument(call, 0);
  const Shape index = gather_checked_shape(call);
  const Shape& y = argument(call, 2);
  if (y.size() != x.size()) throw shape_error("y has another number of dimensions than x");
  require_within(index, y, x.size());
  return x;
}

void require_line(const Shape& index) {
  if (index.size() != 1) throw shape_error("the index must have one dimension");
}

Shape index_rows_shape(const ShapeCall& call) {
  Shape shape = argument(call, 0);
  const std::size_t dim = dimension(call, "dim", shape);
  require_line(argument(call, 1));
  shape[dim] = argument(call, 1)[0];
  return shape;
}

Shape add_rows_shape(const ShapeCall& call) {
  const Shape& x = argument(call, 0);
  const std::size_t dim = dimension(call, "dim", x);
  require_line(argument(call, 1));
  Shape rows = x;
  rows[dim] = argument(call, 1)[0];
  require_fit("y", argument(call, 2), rows);
  return x;
}

// The index as a row below `rows`; `wraps`: negative ones count from the end.
std::uint64_t row_of(double index, std::uint64_t rows, bool wraps = false) {
  const double at = wraps && index < 0 ? index + static_cast<double>(rows) : index;
  if (!(at >= 0 && at < static_cast<double>(rows))) {
    throw base::input_error("the index ", index, " is out of range, there are ", rows);
  }
  return static_cast<std::uint64_t>(at);
}

Value embedding(const EvaluationCall& call) {
  const Value weight = call.arguments[0]->to_dense();
  const Value ids = call.arguments[1]->to_dense();
  Value result = Value::uninitialised(call.shape);
  const std::uint64_t rows = weight.shape()[0];
  const std::uint64_t width = rows == 0 ? 0 : weight.size() / rows;
  for_rows(call.context, ids.size(), width, [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t i = begin; i < end; ++i) {
      const double* row = weight.data() + row_of(ids.data()[i], rows) * width;
      std::copy(row, row + width, result.fresh() + i * width);
    }
  });
  return result;
}

// Adds terms to elements one after the other, in the type of the result.
class AddedTerms {
 public:
  AddedTerms(const EvaluationCall& call, Value& result)
      : call_(call), out_(result.fresh()), squares_(call.noise == nullptr ? 0 : result.size()) {}

  void add(std::uint64_t element, double term) {
    out_[element] += term;
    if (!squares_.empty()) squares_[element] += out_[element] * out_[element];
  }

  void finish() {
    for (std::uint64_t i = 0; i < squares_.size(); ++i) {
      out_[i] += call_.noise->stream(1).at(i) * unit_roundoff(call_.dtype) * std::sqrt(squares_[i]);
    }
  }

 private:
  const EvaluationCall& call_;
  double* out_;
  std::vector<double> squares_;  // of the partial sums
};

Value embedding_grad(const EvaluationCall& call) {
  const Value g = call.arguments[0]->to_dense();
  const Value ids = call.arguments[1]->to_dense();
  Value result = Value::zeros(call.shape);
  const std::uint64_t rows = call.shape[0];
  const std::uint64_t width = rows == 0 ? 0 : result.size() / rows;
  const auto padding = static_cast<double>(call.attributes.integer_or("padding", -1));
  AddedTerms terms(call, result);
  for (std::uint64_t i = 0; i < ids.size(); ++i) {
    if (ids.data()[i] == padding) continue;
    const std::uint64_t row = row_of(ids.data()[i], rows);
    for (std::uint64_t c = 0; c < width; ++c) terms.add(row * width + c, g.data()[i * width + c]);
  }
  terms.finish();
  return result;
}

// Calls visit(element of x, element of the index, coordinates) for all elements of the index.
template <typename Visit>
void for_each_index(const Value& index, const Shape& x, std::size_t dim, const Visit& visit) {
  const Value dense = index.to_dense();
  const Shape& shape = index.shape();
  std::vector<std::uint64_t> at(shape.size(), 0);
  for (std::uint64_t i = 0; i < dense.size(); ++i) {
    std::uint64_t element = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      element = element * x[d] + (d == dim ? row_of(dense.data()[i], x[d]) : at[d]);
    }
    visit(element, i, at);
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++at[d] < shape[d]) break;
      at[d] = 0;
    }
  }
}

Value gather(const EvaluationCall& call) {
  const Value x = call.arguments[0]->to_dense();
  Value result = Value::uninitialised(call.shape);
  for_each_index(*call.arguments[1], x.shape(),
                 static_cast<std::size_t>(call.attributes.integer("dim")),
                 [&](std::uint64_t element, std::uint64_t i, const auto&) {
                   result.fresh()[i] = x.data()[element];
                 });
  return result;
}

Value scatter_add(const EvaluationCall& call) {
  Value result = call.arguments[0]->copy();
  const Value y = call.arguments[2]->to_dense();
  AddedTerms terms(call, result);
  for_each_index(*call.arguments[1], result.shape(),
                 static_cast<std::size_t>(call.attributes.integer("dim")),
                 [&](std::uint64_t element, std::uint64_t, const auto& at) {
                   terms.add(element, y.data()[tensor::position(y.shape(), at)]);
                 });
  terms.finish();
  return result;
}

constexpr std::string_view kProduct = "product";
constexpr std::string_view kMean = "mean";

Shape scatter_reduce_shape(const ShapeCall& call) {
  const std::string& reduce = call.attributes.word("reduce");
  if (reduce != "sum" && reduce != kMean && reduce != kProduct) {
    throw shape_error("\"reduce\" is \"sum\", \"mean\" or \"product\", not \"",
                      base::excerpt(reduce), "\"");
  }
  return scatter_add_shape(call);
}

// Calls visit(element of x, element of y, whether it is the element's first) for all of the index.
// An element's first y takes the place of what x holds there unless that is included.
template <typename Visit>
void for_each_scattered(const EvaluationCall& call, const Visit& visit) {
  const Shape& x = call.shape;
  std::vector<char> included(count_of(x), call.attributes.flag("include_self"));
  const Value y = call.arguments[2]->to_dense();
  for_each_index(*call.arguments[1], x, static_cast<std::size_t>(call.attributes.integer("dim")),
                 [&](std::uint64_t element, std::uint64_t, const auto& at) {
                   visit(element, y.data()[tensor::position(y.shape(), at)], !included[element]);
                   included[element] = 1;
                 });
}

// Sums and products one element after the other, in the type of the result.
Value scatter_reduce(const EvaluationCall& call) {
  Value result = call.arguments[0]->copy();
  double* out = result.fresh();
  const std::string& reduce = call.attributes.word("reduce");
  // Of the results so far; and how many elements each has.
  std::vector<double> squares(call.noise == nullptr ? 0 : result.size());
  std::vector<double> counts(result.size(), 1);
  for_each_scattered(call, [&](std::uint64_t element, double term, bool first) {
    counts[element] += first ? 0 : 1;
    if (first) {
      out[element] = term;
    } else if (reduce == kProduct) {
      out[element] *= term;
    } else {
      out[element] += term;
    }
    if (!squares.empty() && !first) squares[element] += out[element] * out[element];
  });
  const double unit = unit_roundoff(call.dtype);
  for (std::uint64_t i = 0; i < result.size(); ++i) {
    if (!squares.empty()) {
      const double of_product = std::abs(out[i]) * std::sqrt(counts[i] - 1);
      const double lost = reduce == kProduct ? of_product : std::sqrt(squares[i]);
      out[i] += call.noise->stream(1).at(i) * unit * lost;
    }
    if (reduce == kMean) out[i] /= counts[i];
  }
  return result;
}

// NaN wins, as in torch.
Value scatter_extreme(const EvaluationCall& call) {
  Value result = call.arguments[0]->copy();
  double* out = result.fresh();
  const bool largest = call.attributes.flag("largest");
  for_each_scattered(call, [&](std::uint64_t element, double other, bool first) {
    const double own = out[element];
    const bool keep = !first && (std::isnan(own) || (largest ? own > other : own < other));
    if (!keep) out[element] = other;
  });
  return result;
}

// A tensor as [outer, rows, inner] around `dim`.
struct Around {
  std::uint64_t outer = 1;
  std::uint64_t rows = 1;
  std::uint64_t inner = 1;

  Around(const Shape& shape, std::size_t dim) {
    for (std::size_t d = 0; d < shape.size(); ++d) {
      (d < dim ? outer : d == dim ? rows : inner) *= shape[d];
    }
  }
};

Value index_rows(const EvaluationCall& call) {
  const Value x = call.arguments[0]->to_dense();
  const Value index = call.arguments[1]->to_dense();
  const auto dim = static_cast<std::size_t>(call.attributes.integer("dim"));
  const Around from(x.shape(), dim);
  Value result = Value::uninitialised(call.shape);
  double* out = result.fresh();
  for (std::uint64_t o = 0; o < from.outer; ++o) {
    for (const double wanted : index.elements()) {
      const double* row = x.data() + (o * from.rows + row_of(wanted, from.rows, true)) * from.inner;
      out = std::copy(row, row + from.inner, out);
    }
  }
  return result;
}

Value add_rows(const EvaluationCall& call) {
  Value result = call.arguments[0]->copy();
  const Value index = call.arguments[1]->to_dense();
  const Value y = call.arguments[2]->to_dense();
  const auto dim = static_cast<std::size_t>(call.attributes.integer("dim"));
  const Around to(result.shape(), dim);
  AddedTerms terms(call, result);
  const double* term = y.data();
  for (std::uint64_t o = 0; o < to.outer; ++o) {
    for (const double wanted : index.elements()) {
      const std::uint64_t row = (o * to.rows + row_of(wanted, to.rows, true)) * to.inner;
      for (std::uint64_t i = 0; i < to.inner; ++i) terms.add(row + i, *term++);
    }
  }
  terms.finish();
  return result;
}

// Cuts the ids, whose dimensions come first in the result, or the table along its other dimensions.
std::optional<ArgumentCuts> cut_embedding(const CutCall& call) {
  const std::size_t ids = call.arguments[1]->size();
  if (call.cut.dim < ids) return ArgumentCuts{std::nullopt, call.cut};
  return ArgumentCuts{call.cut.along(call.cut.dim - ids + 1), std::nullopt};
}

Primitive with_layout_for_shape(Primitive primitive) {
  primitive.shape_is_layout = true;
  return primitive;
}

}  // namespace

std::vector<Primitive> table_primitives() {
  using enum AttributeType;
  using enum Rounding;
  const std::vector<AttributeRule> dim{{"dim", kInteger}};
  Primitive rows = entry("embedding", {"weight", "ids"}, 2, {}, kExact, embedding_shape, embedding);
  rows.cut = cut_embedding;
  return {
      with_layout_for_shape(rows),
      with_layout_for_shape(entry("embedding_grad", {"g", "ids"}, 2,
                                  {{"rows", kInteger}, {"padding", kInteger, false}}, kOnce,
                                  embedding_grad_shape, embedding_grad)),
      with_layout_for_shape(
          entry("gather", {"x", "index"}, 2, dim, kExact, gather_checked_shape, gather)),
      with_layout_for_shape(
          entry("scatter_add", {"x", "index", "y"}, 3, dim, kOnce, scatter_add_shape, scatter_add)),
      with_layout_for_shape(entry("scatter_reduce", {"x", "index", "y"}, 3,
                                  {{"dim", kInteger}, {"reduce", kWord}, {"include_self", kFlag}},
                                  kOnce, scatter_reduce_shape, scatter_reduce)),
      with_layout_for_shape(entry("scatter_extreme", {"x", "index", "y"}, 3,
                                  {{"dim", kInteger}, {"largest", kFlag}, {"include_self", kFlag}},
                                  kExact, scatter_add_shape, scatter_extreme)),
      entry("index_rows", {"x", "index"}, 2, dim, kExact, index_rows_shape, index_rows),
      entry("add_rows", {"x", "index", "y"}, 3, dim, kOnce, add_rows_shape, add_rows),
  };
}

}  // namespace ttrace::specification
