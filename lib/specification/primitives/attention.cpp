// Scaled dot-product attention and its derivatives, a block of rows of one head at a time: memory
// does not grow with the square of the sequence.
#include <cmath>

#include "specification/primitives/attention_head.h"
#include "specification/primitives/families.h"
#include "specification/primitives/loops.h"
#include "specification/primitives/products.h"
#include "specification/primitives/shape_rules.h"

namespace ttrace::specification {
namespace {

using tensor::Shape;

constexpr std::uint64_t kBlock = 128;  // rows of a head at a time

// Positions of the arguments: `first` is that of q.
template <std::size_t first>
void check(const ShapeCall& call) {
  const Shape& q = argument(call, first);
  const Shape& k = argument(call, first + 1);
  const Shape& v = argument(call, first + 2);
  const std::size_t dims = q.size();
  if (dims < 3 || k.size() != dims || v.size() != dims) {
    throw shape_error("q, k and v need three or more dimensions, as many each");
  }
  Shape like_k = q;
  like_k[dims - 3] = k[dims - 3];
  like_k[dims - 2] = k[dims - 2];
  require_fit("k", k, like_k);
  Shape like_v = k;
  like_v[dims - 1] = v[dims - 1];
  require_fit("v", v, like_v);
  const std::uint64_t heads = q[dims - 3];
  const std::uint64_t groups = k[dims - 3];
  if (heads != kAnyExtent && groups != kAnyExtent && (groups == 0 || heads % groups != 0)) {
    throw shape_error(heads, " heads cannot share ", groups, " heads of k and v");
  }
  if (call.arguments[first + 3] != nullptr) {
    Shape scores = q;
    scores[dims - 1] = k[dims - 2];
    const Shape& mask = argument(call, first + 3);
    if (mask.size() > dims) throw shape_error("the mask has too many dimensions");
    require_fit("the mask", broadcast(mask, scores), scores);
  }
}

Shape result_shape(const ShapeCall& call) {
  check<0>(call);
  Shape shape = argument(call, 0);
  shape.back() = argument(call, 2).back();
  return shape;
}

enum class Grad { kQuery, kKey, kValue };

template <Grad grad>
Shape attention_grad_shape(const ShapeCall& call) {
  check<1>(call);
  Shape output = argument(call, 1);
  output.back() = argument(call, 3).back();
  require_fit("g", argument(call, 0), output);
  return argument(call, grad == Grad::kQuery ? 1 : grad == Grad::kKey ? 2 : 3);
}

std::vector<double> column_norms_of(MatrixView matrix, std::uint64_t rows, std::uint64_t columns) {
  std::vector<double> norms(columns, 0.0);
  for (std::uint64_t r = 0; r < rows; ++r) {
    for (std::uint64_t c = 0; c < columns; ++c) {
      const double x = matrix.data[static_cast<std::int64_t>(r) * matrix.row_stride +
                                   static_cast<std::int64_t>(c) * matrix.column_stride];
      norms[c] += x * x;
    }
  }
  for (double& norm : norms) norm = std::sqrt(norm);
  return norms;
}

// Σ weights · values of rows, for the output and for dq.
template <bool derivative>
Value query_rows(const EvaluationCall& call) {
  const Attention attention(call, derivative ? 1 : 0);
  Value result = Value::uninitialised(call.shape);
  const std::uint64_t width = call.shape.back();
  const std::uint64_t blocks = (attention.rows() + kBlock - 1) / kBlock;
  for_ranges(call.context, attention.heads() * blocks, 1, [&](std::uint64_t task, std::uint64_t) {
    const Head head = attention.head(task / blocks);
    const std::uint64_t begin = task % blocks * kBlock;
    const std::uint64_t end = std::min(begin + kBlock, attention.rows());
    std::vector<double> p;
    std::vector<double> z;
    const std::uint64_t reach = attention.reach(head, begin, end);
    attention.block(head, begin, end, derivative, reach, p, z);
    const std::vector<double>& weights = derivative ? z : p;
    const MatrixView values = derivative ? head.k : head.v;
    double* out = result.fresh() + (head.number * attention.rows() + begin) * width;
    const std::uint64_t columns = attention.columns();
    multiply(end - begin, width, reach, {weights.data(), static_cast<std::int64_t>(reach), 1},
             values, out, static_cast<std::int64_t>(width), false);
    std::vector<double> norms;
    if (call.noise != nullptr) norms = column_norms_of(values, columns, width);
    const double unit = sum_roundoff(call.dtype, 1, columns);
    const double coherent = coherent_roundoff(call.dtype, columns);
    for (std::uint64_t r = 0; r < end - begin; ++r) {
      double square = 0;
      for (std::uint64_t c = 0; call.noise != nullptr && c < reach; ++c) {
        square += weights[r * reach + c] * weights[r * reach + c];
      }
      const double size = std::sqrt(square);
      for (std::uint64_t e = 0; e < width; ++e) {
        double& element = out[r * width + e];
        if (call.noise != nullptr) {
          const auto index = static_cast<std::uint64_t>(&element - result.fresh());
          const double sum = unit * size * norms[e];
          const double lost = std::sqrt(sum * sum + coherent * element * coherent * element);
          element += call.noise->stream(1).at(index) * lost;
        }
        if (derivative) element *= attention.scale();
      }
    }
  });
  return result;
}

// Σ weightsᵀ · values over the rows of all heads of a group: dk and dv.
template <Grad grad>
Value grad_columns(const EvaluationCall& call) {
  constexpr bool kKey = grad == Grad::kKey;
  const Attention attention(call, 1);
  Value result = Value::uninitialised(call.shape);
  const std::uint64_t width = call.shape.back();
  const std::uint64_t columns = attention.columns();
  const std::uint64_t shared = attention.heads_per_group();
  for_ranges(call.context, attention.heads() / shared, 1, [&](std::uint64_t group, std::uint64_t) {
    double* out = result.fresh() + group * columns * width;
    std::fill(out, out + columns * width, 0.0);
    std::vector<double> p;
    std::vector<double> z;
    std::vector<double> weight_squares(columns, 0.0);
    std::vector<double> value_squares(width, 0.0);
    for (std::uint64_t h = group * shared; h < (group + 1) * shared; ++h) {
      const Head head = attention.head(h);
      const MatrixView values = kKey ? head.q : head.g;
      for (std::uint64_t begin = 0; begin < attention.rows(); begin += kBlock) {
        const std::uint64_t end = std::min(begin + kBlock, attention.rows());
        const std::uint64_t reach = attention.reach(head, begin, end);
        attention.block(head, begin, end, kKey, reach, p, z);
        const std::vector<double>& weights = kKey ? z : p;
        multiply(reach, width, end - begin, {weights.data(), 1, static_cast<std::int64_t>(reach)},
                 at_row(values, begin), out, static_cast<std::int64_t>(width), true);
        if (call.noise == nullptr) continue;
        for (std::uint64_t i = 0; i < weights.size(); ++i) {
          weight_squares[i % reach] += weights[i] * weights[i];
        }
      }
      if (call.noise == nullptr) continue;
      const auto norms = column_norms_of(values, attention.rows(), width);
      for (std::uint64_t e = 0; e < width; ++e) value_squares[e] += norms[e] * norms[e];
    }
    const double unit = sum_roundoff(call.dtype, 1, attention.rows() * shared);
    const double coherent = coherent_roundoff(call.dtype, attention.rows() * shared);
    for (std::uint64_t i = 0; i < columns * width; ++i) {
      if (call.noise != nullptr) {
        const double square = weight_squares[i / width] * value_squares[i % width];
        const double sum = coherent * out[i];
        out[i] += call.noise->stream(1).at(group * columns * width + i) *
                  std::sqrt(unit * unit * square + sum * sum);
      }
      if (kKey) out[i] *= attention.scale();
    }
  });
  return result;
}

// dq, dk and dv of a group at a time; each is added up in the order of its own loop above.
std::vector<Primitive::Named> all_gradients(const EvaluationCall& call) {
  const Attention attention(call, 1);
  Value of_query = Value::uninitialised(attention.q().shape());
  Value of_key = Value::zeros(attention.k().shape());
  Value of_value = Value::zeros(attention.v().shape());
  const std::uint64_t shared = attention.heads_per_group();
  const std::uint64_t depth = attention.depth();
  const std::uint64_t width = attention.width();
  const auto stride = [](std::uint64_t columns) { return static_cast<std::int64_t>(columns); };
  for_ranges(call.context, attention.heads() / shared, 1, [&](std::uint64_t group, std::uint64_t) {
    double* dk = of_key.fresh() + group * attention.columns() * depth;
    double* dv = of_value.fresh() + group * attention.columns() * width;
    std::vector<double> p;
    std::vector<double> z;
    for (std::uint64_t h = group * shared; h < (group + 1) * shared; ++h) {
      const Head head = attention.head(h);
      for (std::uint64_t begin = 0; begin < attention.rows(); begin += kBlock) {
        const std::uint64_t end = std::min(begin + kBlock, attention.rows());
        const std::uint64_t reach = attention.reach(head, begin, end);
        attention.block(head, begin, end, true, reach, p, z);
        const MatrixView weights{z.data(), stride(reach), 1};
        const MatrixView probabilities{p.data(), stride(reach), 1};
        double* dq = of_query.fresh() + (h * attention.rows() + begin) * depth;
        multiply(end - begin, depth, reach, weights, head.k, dq, stride(depth), false);
        for (std::uint64_t i = 0; i < (end - begin) * depth; ++i) dq[i] *= attention.scale();
        multiply(reach, depth, end - begin, weights.transposed(), at_row(head.q, begin), dk,
                 stride(depth), true);
        multiply(reach, width, end - begin, probabilities.transposed(), at_row(head.g, begin), dv,
                 stride(width), true);
      }
    }
    for (std::uint64_t i = 0; i < attention.columns() * depth; ++i) dk[i] *= attention.scale();
  });
  return {{"attention_grad_query", of_query},
          {"attention_grad_key", of_key},
          {"attention_grad_value", of_value}};
}

// Cuts batches, or heads: some of one group that shares k and v, or whole groups. `kFirst`: the
// position of the argument q; `kOfGroups`: the result has groups instead of heads.
template <std::size_t kFirst, bool kOfGroups>
std::optional<ArgumentCuts> cut_heads(const CutCall& call) {
  const Cut& cut = call.cut;
  const auto& arguments = call.arguments;
  const std::size_t heads_dim = call.shape.size() - 3;
  if (cut.dim > heads_dim || (cut.dim == heads_dim && cut.step != 1)) return std::nullopt;
  const bool masked = arguments.size() > kFirst + 3;
  if (cut.dim < heads_dim) {
    ArgumentCuts cuts(arguments.size(), cut);
    if (masked) cuts.back() = cut_of_broadcast(call, *arguments.back(), cut);
    return cuts;
  }
  const std::uint64_t groups = (*arguments[kFirst + 1])[heads_dim];
  const std::uint64_t shared = (*arguments[kFirst])[heads_dim] / groups;
  Cut heads = cut;
  Cut held = cut;
  if (kOfGroups) {
    heads.start *= shared;
    heads.count *= shared;
  } else {
    held.start /= shared;
    held.count = (cut.start + cut.count - 1) / shared - held.start + 1;
    const bool whole = cut.start % shared == 0 && cut.count % shared == 0;
    if (!whole && held.count > 1) return std::nullopt;
  }
  ArgumentCuts cuts(arguments.size(), heads);
  cuts[kFirst + 1] = held;
  cuts[kFirst + 2] = held;
  if (masked) cuts.back() = cut_of_broadcast(call, *arguments.back(), heads);
  return cuts;
}

// Each element of a row takes all scores of the row.
template <std::size_t kFirst>
double work_of_scores(std::span<const Shape* const> arguments) {
  const Shape& k = *arguments[kFirst + 1];
  return static_cast<double>(k[k.size() - 2]);
}

}  // namespace

std::vector<Primitive> attention_primitives() {
  using enum AttributeType;
  using enum Rounding;
  const std::vector<AttributeRule> attributes{{"scale", kNumber}, {"causal", kFlag}};
  Primitive forward = entry("attention", {"q", "k", "v", "mask"}, 3, attributes, kOnce,
                            result_shape, query_rows<false>);
  forward.cut = cut_heads<0, false>;
  forward.work = work_of_scores<0>;
  const auto gradient = [&](std::string_view name, auto* shape, auto* evaluate, CutRule cut) {
    Primitive primitive =
        entry(name, {"g", "q", "k", "v", "mask"}, 4, attributes, kOnce, shape, evaluate);
    primitive.together = all_gradients;
    primitive.cut = cut;
    primitive.work = work_of_scores<1>;
    return primitive;
  };
  std::vector<Primitive> all{
      forward,
      gradient("attention_grad_query", attention_grad_shape<Grad::kQuery>, query_rows<true>,
               cut_heads<1, false>),
      gradient("attention_grad_key", attention_grad_shape<Grad::kKey>, grad_columns<Grad::kKey>,
               cut_heads<1, true>),
      gradient("attention_grad_value", attention_grad_shape<Grad::kValue>,
               grad_columns<Grad::kValue>, cut_heads<1, true>),
  };
  for (Primitive& primitive : all) {
    primitive.shape_is_layout = true;
    primitive.worth_sharing = true;
  }
  return all;
}

}  // namespace ttrace::specification
