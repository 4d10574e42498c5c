#include "specification/primitives/products.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.h"
#include "specification/primitives/families.h"
#include "specification/primitives/loops.h"
#include "specification/primitives/shape_rules.h"
#include "specification/primitives/zero_rows.h"

namespace ttrace::specification {
namespace {

using tensor::Shape;

constexpr std::string_view kFactors = "factors";

Shape matmul_shape(const ShapeCall& call) {
  if (const std::string* factors = factors_of(call.attributes)) {
    if (*factors != kMatmulFactors && *factors != kConvolutionFactors) {
      throw shape_error("\"factors\" is \"", kMatmulFactors, "\" or \"", kConvolutionFactors,
                        "\", not \"", base::excerpt(*factors), "\"");
    }
  }
  const Shape& x = argument(call, 0);
  const Shape& y = argument(call, 1);
  if (x.size() < 2 || y.size() < 2 || !fits(x.back(), y[y.size() - 2])) {
    throw shape_error(describe_shape(x), " and ", describe_shape(y),
                      " are no matrices that can be multiplied");
  }
  Shape result = broadcast(Shape(x.begin(), x.end() - 2), Shape(y.begin(), y.end() - 2));
  result.push_back(x[x.size() - 2]);
  result.push_back(y.back());
  return result;
}

Shape batch_shape(const Shape& shape) { return {shape.begin(), shape.end() - 2}; }

Value with_batch(const Value& value, const Shape& batch) {
  Shape shape = batch;
  shape.insert(shape.end(), value.shape().end() - 2, value.shape().end());
  return value.expanded(shape);
}

Value matmul(const EvaluationCall& call) {
  const Value& x = *call.arguments[0];
  const Value& y = *call.arguments[1];
  Value result = product_of(x, y, call.shape, call.context);
  if (call.noise == nullptr) return result;

  const Shape batch = batch_shape(call.shape);
  const Value left = row_norms(with_batch(x, batch), call.context);
  const Value right = column_norms(with_batch(y, batch), call.context);
  const std::uint64_t m = call.shape[call.shape.size() - 2];
  const std::uint64_t n = call.shape.back();
  const std::uint64_t terms = x.shape().back();
  const double unit = sum_roundoff(call.dtype, 1, terms);
  const double coherent = coherent_roundoff(call.dtype, terms);
  const double kept = kept_in_sum(call.dtype);
  const Noise noise = call.noise->stream(1);
  double* out = result.fresh();
  if (n == 0) return result;
  for_rows(call.context, result.size() / n, n, [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t r = begin; r < end; ++r) {
      const double* column = right.data() + r / m * n;
      const double row = unit * left.data()[r];
      const double of_left =
          kept * kept * (static_cast<double>(terms) + left.data()[r] * left.data()[r]);
      for (std::uint64_t j = 0; j < n; ++j) {
        double& element = out[r * n + j];
        const double norms = row * column[j];
        const double sum = coherent * element;
        const double flushed = of_left + kept * kept * column[j] * column[j];
        element += noise.at(r * n + j) * std::sqrt(norms * norms + sum * sum + flushed);
      }
    }
  });
  return result;
}

}  // namespace

MatrixView matrix_at(const Value& value, std::uint64_t batch) {
  const std::size_t last = value.dimensions() - 1;
  std::int64_t offset = 0;
  for (std::size_t d = last - 1; d-- > 0;) {
    const std::uint64_t extent = value.shape()[d];
    offset += static_cast<std::int64_t>(batch % extent) * value.strides()[d];
    batch /= extent;
  }
  return {value.data() + offset, value.strides()[last - 1], value.strides()[last]};
}

namespace {

// The same matrices as one: [..., m, k] as [rows, k]; nothing if their rows are not evenly apart.
std::optional<MatrixView> joined_rows(const Value& value) {
  const std::size_t last = value.dimensions() - 1;
  std::int64_t apart = value.strides()[last - 1];
  std::uint64_t rows = value.shape()[last - 1];
  for (std::size_t d = last - 1; d-- > 0;) {
    if (value.shape()[d] == 1) continue;
    if (value.strides()[d] != apart * static_cast<std::int64_t>(rows)) return std::nullopt;
    rows *= value.shape()[d];
  }
  return MatrixView{value.data(), apart, value.strides()[last]};
}

bool is_one_matrix(const Value& value) {
  for (std::size_t d = 0; d + 2 < value.dimensions(); ++d) {
    if (value.shape()[d] != 1 && value.strides()[d] != 0) return false;
  }
  return true;
}

// Writes all products if the backend multiplies, and each of them is worth it.
bool multiply_on_backend(const measure::ExecutionContext& context, const Value& left,
                         const Value& right, Value& result) {
  const measure::ProductBackend* const backend = context.backend->products();
  if (backend == nullptr) return false;
  const std::size_t last = result.dimensions() - 1;
  measure::Product product;
  product.m = result.shape()[last - 1];
  product.n = result.shape()[last];
  product.k = left.shape()[last];
  product.row_stride = static_cast<std::int64_t>(product.n);
  std::uint64_t count = result.size() / (product.m * product.n);
  // A layer's input with batches times one weight: all rows in one product.
  std::optional<MatrixView> joined;
  if (count > 1 && is_one_matrix(right)) joined = joined_rows(left);
  if (joined) {
    product.m *= count;
    count = 1;
  }
  if (!backend->pays(product.m, product.n, product.k, context.thread_count())) return false;
  for (std::uint64_t i = 0; i < count; ++i) {
    product.a = joined ? *joined : matrix_at(left, i);
    product.b = matrix_at(right, i);
    product.c = result.fresh() + i * product.m * product.n;
    if (!backend->multiply(product)) return false;
  }
  return true;
}

// Writes all products if some have rows or columns of zeros, without these.
bool multiply_without_zeros(const measure::ExecutionContext& context, const Value& left,
                            const Value& right, Value& result) {
  const std::size_t last = result.dimensions() - 1;
  const std::uint64_t m = result.shape()[last - 1];
  const std::uint64_t n = result.shape()[last];
  const std::uint64_t k = left.shape()[last];
  std::vector<std::optional<NonZeroParts>> parts(result.size() / (m * n));
  const auto product = [&](std::uint64_t i) {
    return ProductOfMatrices{m, n, k, matrix_at(left, i), matrix_at(right, i)};
  };
  for_ranges(context, parts.size(), 1, [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t i = begin; i < end; ++i) parts[i] = non_zero_parts(product(i));
  });
  const auto has_zeros = [](const std::optional<NonZeroParts>& one) { return one.has_value(); };
  if (std::none_of(parts.begin(), parts.end(), has_zeros)) return false;

  std::vector<std::pair<std::uint64_t, ResultBlock>> tasks;  // of a matrix
  for (std::uint64_t i = 0; i < parts.size(); ++i) {
    if (!parts[i]) parts[i].emplace();  // all of it counts
    const std::uint64_t rows = parts[i]->rows ? parts[i]->rows->size() : m;
    for (std::uint64_t r = 0; r < rows; r += kRowsPerCall) {
      for (std::uint64_t j = 0; j < n; j += kColumnsPerCall) {
        tasks.push_back(
            {i, {r, std::min(r + kRowsPerCall, rows), j, std::min(j + kColumnsPerCall, n)}});
      }
    }
  }
  double* const out = result.fresh();
  std::fill_n(out, result.size(), 0.0);
  for_ranges(context, tasks.size(), 1, [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t t = begin; t < end; ++t) {
      const auto& [matrix, block] = tasks[t];
      multiply_non_zero(product(matrix), *parts[matrix], block, out + matrix * m * n);
    }
  });
  return true;
}

std::optional<ArgumentCuts> cut_matmul(const CutCall& call) {
  const std::size_t last = call.shape.size() - 1;
  const Shape& x = *call.arguments[0];
  const Shape& y = *call.arguments[1];
  if (call.cut.dim == last - 1) return ArgumentCuts{call.cut.along(x.size() - 2), std::nullopt};
  if (call.cut.dim == last) return ArgumentCuts{std::nullopt, call.cut.along(y.size() - 1)};
  return cut_broadcast(call);
}

double work_of_matmul(std::span<const Shape* const> arguments) {
  return static_cast<double>(arguments[0]->back()) / 4;
}

std::optional<std::vector<MatrixTerm>> terms_of_matmul(const TermsCall& call) {
  if (call.arguments[1]->size() != 2 || (call.transposed && call.shape.size() != 2)) {
    return std::nullopt;
  }
  return std::vector<MatrixTerm>{{.left = 0, .right = 1}};
}

}  // namespace

Value product_of(const Value& x, const Value& y, const Shape& shape,
                 const measure::ExecutionContext& context) {
  const Shape batch = batch_shape(shape);
  const Value left = with_batch(x, batch);
  const Value right = with_batch(y, batch);
  const std::uint64_t m = shape[shape.size() - 2];
  const std::uint64_t n = shape.back();
  const std::uint64_t k = x.shape().back();
  Value result = Value::uninitialised(shape);
  if (result.size() == 0) return result;
  const std::uint64_t matrices = result.size() / (m * n);
  if (multiply_on_backend(context, left, right, result)) return result;
  if (multiply_without_zeros(context, left, right, result)) return result;
  const std::uint64_t row_blocks = (m - 1) / kRowsPerCall + 1;
  const std::uint64_t column_blocks = (n - 1) / kColumnsPerCall + 1;
  const std::uint64_t blocks = row_blocks * column_blocks;
  const std::uint64_t per_block = std::min(kRowsPerCall, m) * std::min(kColumnsPerCall, n) * k;
  // Small products share a call.
  const std::uint64_t length = kElementsPerCall * 8 / std::max<std::uint64_t>(per_block, 1);
  for_ranges(context, matrices * blocks, length, [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t task = begin; task < end; ++task) {
      const std::uint64_t matrix = task / blocks;
      const std::uint64_t i = task % blocks / column_blocks * kRowsPerCall;
      const std::uint64_t j = task % column_blocks * kColumnsPerCall;
      MatrixView a = matrix_at(left, matrix);
      MatrixView b = matrix_at(right, matrix);
      a.data += static_cast<std::int64_t>(i) * a.row_stride;
      b.data += static_cast<std::int64_t>(j) * b.column_stride;
      multiply(std::min(kRowsPerCall, m - i), std::min(kColumnsPerCall, n - j), k, a, b,
               result.fresh() + matrix * m * n + i * n + j, static_cast<std::int64_t>(n), false);
    }
  });
  return result;
}

Value row_norms(const Value& value, const measure::ExecutionContext& context) {
  Value result = Value::zeros({value.shape().begin(), value.shape().end() - 1});
  const std::uint64_t rows = result.shape().back();
  const std::uint64_t n = value.shape().back();
  double* squares = result.fresh();
  for_rows(context, result.size(), n, [&](std::uint64_t begin, std::uint64_t end) {
    while (begin < end) {
      const std::uint64_t last = std::min(end, (begin / rows + 1) * rows);  // of one matrix
      const MatrixView matrix = matrix_at(value, begin / rows);
      const double* first =
          matrix.data + static_cast<std::int64_t>(begin % rows) * matrix.row_stride;
      const auto add = [&](std::uint64_t r, std::uint64_t j) {
        const double x = first[static_cast<std::int64_t>(r - begin) * matrix.row_stride +
                               static_cast<std::int64_t>(j) * matrix.column_stride];
        squares[r] += x * x;
      };
      // Along the memory; every row adds its columns in order either way.
      if (std::abs(matrix.row_stride) < std::abs(matrix.column_stride)) {
        for (std::uint64_t j = 0; j < n; ++j) {
          for (std::uint64_t r = begin; r < last; ++r) add(r, j);
        }
      } else {
        for (std::uint64_t r = begin; r < last; ++r) {
          for (std::uint64_t j = 0; j < n; ++j) add(r, j);
        }
      }
      begin = last;
    }
  });
  for (std::uint64_t r = 0; r < result.size(); ++r) squares[r] = std::sqrt(squares[r]);
  return result;
}

Value column_norms(const Value& value, const measure::ExecutionContext& context) {
  std::vector<std::size_t> order(value.dimensions());
  for (std::size_t d = 0; d < order.size(); ++d) order[d] = d;
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return row_norms(value.permuted(order), context);
}

const std::string* factors_of(const Attributes& attributes) {
  const Attributes::Content* const found = attributes.find(kFactors);
  return found != nullptr ? &std::get<std::string>(*found) : nullptr;
}

std::vector<Primitive> product_primitives() {
  Primitive product = entry("matmul", {"x", "y"}, 2, {{kFactors, AttributeType::kWord, false}},
                            Rounding::kOnce, matmul_shape, matmul);
  product.cut = cut_matmul;
  product.work = work_of_matmul;
  product.terms = terms_of_matmul;
  product.shape_is_layout = true;
  product.worth_sharing = true;
  return {product};
}

}  // namespace ttrace::specification
