// Views: primitives that move elements, or put some among others.
#include <algorithm>
#include <cmath>

#include "specification/primitives/families.h"
#include "specification/primitives/loops.h"
#include "specification/primitives/shape_rules.h"

namespace ttrace::specification {
namespace {

using tensor::Shape;

Shape reshape_shape(const ShapeCall& call) {
  const Shape& from = argument(call, 0);
  Shape to = call.declared;
  if (is_open(from)) return to;
  const std::uint64_t count = count_of(from);
  std::size_t open = to.size();
  std::uint64_t rest = 1;
  for (std::size_t d = 0; d < to.size(); ++d) {
    if (to[d] != kAnyExtent) continue;
    if (open < to.size()) throw shape_error("two extents of the result are open");
    open = d;
    to[d] = 1;
  }
  rest = count_of(to);
  if (open < to.size() && rest != 0 && count % rest == 0) to[open] = count / rest;
  if (count_of(to) != count) {
    throw shape_error(describe_shape(from), " cannot have the shape ",
                      describe_shape(call.declared));
  }
  return to;
}

Shape permute_shape(const ShapeCall& call) {
  const Shape& from = argument(call, 0);
  const auto& dims = call.attributes.dims("dims");
  dimensions(call, "dims", from);
  if (dims.size() != from.size()) {
    throw shape_error("\"dims\" has ", dims.size(), " of ", from.size(), " dimensions");
  }
  Shape to(from.size());
  for (std::size_t d = 0; d < to.size(); ++d) to[d] = from[dims[d]];
  return to;
}

Shape expand_shape(const ShapeCall& call) {
  const Shape& from = argument(call, 0);
  Shape to = call.declared;
  if (from.size() > to.size()) {
    throw shape_error(describe_shape(from), " has more dimensions than the result");
  }
  const std::size_t added = to.size() - from.size();
  for (std::size_t d = 0; d < from.size(); ++d) {
    std::uint64_t& extent = to[added + d];
    if (extent == kAnyExtent) extent = from[d];
    if (from[d] != 1 && !fits(from[d], extent)) {
      throw shape_error(describe_shape(from), " does not broadcast to ",
                        describe_shape(call.declared));
    }
  }
  return to;
}

struct SliceRange {
  std::size_t dim;
  std::uint64_t start, stop, step, length;
};

// Returns the range that the attributes cut from a tensor of `shape`.
SliceRange cut_of(const ShapeCall& call, const Shape& shape) {
  const std::size_t dim = dimension(call, "dim", shape);
  const std::int64_t start = call.attributes.integer("start");
  const std::int64_t stop = call.attributes.integer("stop");
  const std::int64_t step = call.attributes.integer("step");
  if (start < 0 || stop < start || step < 1 ||
      (shape[dim] != kAnyExtent && static_cast<std::uint64_t>(stop) > shape[dim])) {
    throw shape_error("[", start, ":", stop, ":", step, "] is no slice of dimension ", dim, " of ",
                      describe_shape(shape));
  }
  SliceRange cut{dim, static_cast<std::uint64_t>(start), static_cast<std::uint64_t>(stop),
                 static_cast<std::uint64_t>(step), 0};
  cut.length = stop == start ? 0 : (cut.stop - cut.start - 1) / cut.step + 1;
  return cut;
}

SliceRange cut_of(const Attributes& attributes) {
  return {static_cast<std::size_t>(attributes.integer("dim")),
          static_cast<std::uint64_t>(attributes.integer("start")),
          static_cast<std::uint64_t>(attributes.integer("stop")),
          static_cast<std::uint64_t>(attributes.integer("step")), 0};
}

Shape slice_shape(const ShapeCall& call) {
  Shape shape = argument(call, 0);
  const SliceRange cut = cut_of(call, shape);
  shape[cut.dim] = cut.length;
  return shape;
}

// `part` must be the slice of `whole`.
void require_slice(const ShapeCall& call, const Shape& part, Shape whole) {
  const SliceRange cut = cut_of(call, whole);
  whole[cut.dim] = cut.length;
  require_fit("the slice", part, whole);
}

Shape place_shape(const ShapeCall& call) {
  Shape to = call.declared;
  const Shape& part = argument(call, 0);
  require_slice(call, part, to);
  for (std::size_t d = 0; d < to.size(); ++d) {
    if (static_cast<std::int64_t>(d) != call.attributes.integer("dim"))
      to[d] = known(to[d], part[d]);
  }
  return to;
}

Shape replace_shape(const ShapeCall& call) {
  require_slice(call, argument(call, 1), argument(call, 0));
  return argument(call, 0);
}

Shape concat_shape(const ShapeCall& call) {
  Shape whole = argument(call, 0);
  const std::size_t dim = dimension(call, "dim", whole);
  for (std::size_t i = 1; i < call.arguments.size(); ++i) {
    Shape next = argument(call, i);
    if (next.size() != whole.size()) throw shape_error("the numbers of dimensions differ");
    const std::uint64_t length = next[dim];
    next[dim] = whole[dim];
    require_fit("an argument", next, whole);
    whole = known(whole, next);
    whole[dim] =
        whole[dim] == kAnyExtent || length == kAnyExtent ? kAnyExtent : whole[dim] + length;
  }
  return whole;
}

Shape flip_shape(const ShapeCall& call) {
  dimensions(call, "dims", argument(call, 0));
  return argument(call, 0);
}

Shape windows_shape(const ShapeCall& call) {
  Shape shape = argument(call, 0);
  const std::size_t dim = dimension(call, "dim", shape);
  const std::int64_t size = call.attributes.integer("size");
  const std::int64_t step = call.attributes.integer("step");
  const std::int64_t spacing = call.attributes.integer("spacing");
  constexpr std::int64_t kMost = std::int64_t{1} << 31U;  // so that products do not overflow
  if (size < 1 || step < 1 || spacing < 1 || size > kMost || spacing > kMost) {
    throw shape_error("there are no windows of ", size, " elements with the step ", step,
                      " and the spacing ", spacing);
  }
  if (shape[dim] != kAnyExtent) {
    const auto reach = static_cast<std::uint64_t>((size - 1) * spacing) + 1;
    if (reach > shape[dim]) {
      throw shape_error("a window reaches over ", reach, " elements of dimension ", dim, " of ",
                        describe_shape(shape));
    }
    shape[dim] = (shape[dim] - reach) / static_cast<std::uint64_t>(step) + 1;
  }
  shape.push_back(static_cast<std::uint64_t>(size));
  return shape;
}

Shape triangle_shape(const ShapeCall& call) {
  if (argument(call, 0).size() < 2) throw shape_error("it needs two dimensions");
  return argument(call, 0);
}

// Writes `part` where `whole` shows; `whole` is a view of the elements that begin at `begin`.
void write_into(const Value& whole, double* begin, const double* base, const Value& part) {
  const Value dense = part.to_dense();
  const Value target = whole;
  const double* in = dense.data();
  const std::uint64_t size = dense.size();
  const auto strides = target.strides();
  const Shape& shape = target.shape();
  const std::ptrdiff_t origin = target.data() - base;
  std::vector<std::uint64_t> at(shape.size(), 0);
  std::int64_t offset = origin;
  for (std::uint64_t i = 0; i < size; ++i) {
    begin[offset] = in[i];
    for (std::size_t d = shape.size(); d-- > 0;) {
      offset += strides[d];
      if (++at[d] < shape[d]) break;
      offset -= strides[d] * static_cast<std::int64_t>(shape[d]);
      at[d] = 0;
    }
  }
}

Value put(Value whole, const Attributes& attributes, const Value& part) {
  const SliceRange cut = cut_of(attributes);
  double* elements = whole.fresh();
  write_into(whole.sliced(cut.dim, cut.start, cut.stop, cut.step), elements, elements, part);
  return whole;
}

Value reshape(const EvaluationCall& call) { return call.arguments[0]->reshaped(call.shape); }
Value permute(const EvaluationCall& call) {
  return call.arguments[0]->permuted(call.attributes.dims("dims"));
}
Value expand(const EvaluationCall& call) { return call.arguments[0]->expanded(call.shape); }
Value slice(const EvaluationCall& call) {
  const SliceRange cut = cut_of(call.attributes);
  return call.arguments[0]->sliced(cut.dim, cut.start, cut.stop, cut.step);
}
Value place(const EvaluationCall& call) {
  return put(Value::zeros(call.shape), call.attributes, *call.arguments[0]);
}
Value replace(const EvaluationCall& call) {
  return put(call.arguments[0]->copy(), call.attributes, *call.arguments[1]);
}
Value join(const EvaluationCall& call) {
  Value whole = Value::uninitialised(call.shape);
  const auto dim = static_cast<std::size_t>(call.attributes.integer("dim"));
  double* elements = whole.fresh();
  std::uint64_t start = 0;
  for (const Value* part : call.arguments) {
    const std::uint64_t stop = start + part->shape()[dim];
    if (part->size() > 0) {
      write_into(whole.sliced(dim, start, stop, 1), elements, elements, *part);
    }
    start = stop;
  }
  return whole;
}
Value flip(const EvaluationCall& call) {
  return call.arguments[0]->flipped(call.attributes.dims("dims"));
}
Value windows(const EvaluationCall& call) {
  const auto integer = [&](std::string_view name) {
    return static_cast<std::uint64_t>(call.attributes.integer(name));
  };
  return call.arguments[0]->windowed(integer("dim"), integer("size"), integer("step"),
                                     integer("spacing"));
}

Value triangle(const EvaluationCall& call) {
  const Value x = call.arguments[0]->to_dense();
  Value result = Value::uninitialised(call.shape);
  const std::uint64_t columns = call.shape.back();
  const std::uint64_t rows = call.shape[call.shape.size() - 2];
  const bool lower = call.attributes.flag("lower");
  const std::int64_t diagonal = call.attributes.integer("diagonal");
  if (result.size() == 0) return result;
  for_rows(call.context, result.size() / columns, columns,
           [&](std::uint64_t begin, std::uint64_t end) {
             for (std::uint64_t r = begin; r < end; ++r) {
               const auto row = static_cast<std::int64_t>(r % rows);
               for (std::uint64_t c = 0; c < columns; ++c) {
                 const std::int64_t apart = static_cast<std::int64_t>(c) - row;
                 const bool kept = lower ? apart <= diagonal : apart >= diagonal;
                 result.fresh()[r * columns + c] = kept ? x.data()[r * columns + c] : 0.0;
               }
             }
           });
  return result;
}

const std::vector<AttributeRule> kCut{{"dim", AttributeType::kInteger},
                                      {"start", AttributeType::kInteger},
                                      {"stop", AttributeType::kInteger},
                                      {"step", AttributeType::kInteger}};

std::uint64_t volume(const Shape& shape, std::size_t from, std::size_t to) {
  std::uint64_t count = 1;
  for (std::size_t d = from; d < to; ++d) count *= shape[d];
  return count;
}

// Cuts the argument's dimension that begins at the same element, if the cut consists of whole
// indices of it.
std::optional<ArgumentCuts> cut_reshaped(const CutCall& call) {
  const Cut& cut = call.cut;
  const Shape& from = *call.arguments[0];
  const std::uint64_t before = volume(call.shape, 0, cut.dim);
  const std::uint64_t length = volume(call.shape, cut.dim + 1, call.shape.size());
  for (std::size_t d = 0; d < from.size(); ++d) {
    if (from[d] == 1 || volume(from, 0, d) != before) continue;
    const std::uint64_t own = volume(from, d + 1, from.size());
    if (own == length) return ArgumentCuts{cut.along(d)};
    if (cut.step != 1 || cut.start * length % own != 0 || cut.count * length % own != 0) {
      return std::nullopt;
    }
    return ArgumentCuts{Cut{d, cut.start * length / own, 1, cut.count * length / own}};
  }
  return std::nullopt;
}

std::optional<ArgumentCuts> cut_permuted(const CutCall& call) {
  return ArgumentCuts{call.cut.along(call.attributes.dims("dims")[call.cut.dim])};
}

std::optional<ArgumentCuts> cut_flipped(const CutCall& call) {
  const auto& flipped = call.attributes.dims("dims");
  const bool among = std::find(flipped.begin(), flipped.end(), call.cut.dim) != flipped.end();
  return among ? std::nullopt : cut_alike(call);
}

std::optional<ArgumentCuts> cut_windows(const CutCall& call) {
  return call.cut.dim == call.shape.size() - 1 ? std::nullopt : cut_across_lines(call);
}

// Returns a term if rows stay rows; for a transpose, if the shape stays the same.
std::optional<std::vector<MatrixTerm>> terms_of_reshaped(const TermsCall& call) {
  const Shape& from = *call.arguments[0];
  const Shape& to = call.shape;
  const bool same_matrix =
      call.transposed ? from == to : !from.empty() && !to.empty() && from.back() == to.back();
  if (!same_matrix) return std::nullopt;
  return std::vector<MatrixTerm>{{.left = 0}};
}

std::optional<std::vector<MatrixTerm>> terms_of_permuted(const TermsCall& call) {
  if (call.attributes.dims("dims") != std::vector<std::size_t>{1, 0}) return std::nullopt;
  return std::vector<MatrixTerm>{{.left = 0, .transposed = true}};
}

// Completes a primitive that only moves elements; summaries for people leave it out.
Primitive view(Primitive primitive, Move move, CutRule cut) {
  primitive.move = move;
  primitive.cut = cut;
  primitive.told_to_people = false;
  return primitive;
}

Primitive cut_by(CutRule cut, Primitive primitive) {
  primitive.cut = cut;
  return primitive;
}

}  // namespace

std::vector<Primitive> view_primitives() {
  using enum AttributeType;
  const auto exact = [](std::string_view name, std::vector<std::string_view> arguments,
                        std::vector<AttributeRule> attributes, auto* shape, auto* evaluate) {
    const std::size_t required = arguments.size();
    return entry(name, std::move(arguments), required, std::move(attributes), Rounding::kExact,
                 shape, evaluate);
  };
  Primitive reshaped =
      view(exact("reshape", {"x"}, {}, reshape_shape, reshape), Move::kInOrder, cut_reshaped);
  reshaped.terms = terms_of_reshaped;
  reshaped.work = no_work;
  reshaped.shape_is_layout = true;

  Primitive permuted = view(exact("permute", {"x"}, {{"dims", kDims}}, permute_shape, permute),
                            Move::kAnyhow, cut_permuted);
  permuted.terms = terms_of_permuted;
  permuted.work = no_work;

  Primitive flipped =
      cut_by(cut_flipped, exact("flip", {"x"}, {{"dims", kDims}}, flip_shape, flip));
  flipped.move = Move::kAnyhow;

  Primitive joined =
      cut_by(cut_across_lines, exact("concat", {"x"}, {{"dim", kInteger}}, concat_shape, join));
  joined.variadic = true;
  joined.told_to_people = false;

  return {
      reshaped,
      permuted,
      view(exact("expand", {"x"}, {}, expand_shape, expand), Move::kAnyhow, cut_broadcast),
      view(exact("slice", {"x"}, kCut, slice_shape, slice), Move::kAnyhow, cut_across_lines),
      cut_by(cut_across_lines, exact("place", {"x"}, kCut, place_shape, place)),
      exact("replace", {"x", "y"}, kCut, replace_shape, replace),
      joined,
      flipped,
      cut_by(
          cut_windows,
          exact("windows", {"x"},
                {{"dim", kInteger}, {"size", kInteger}, {"step", kInteger}, {"spacing", kInteger}},
                windows_shape, windows)),
      exact("triangle", {"x"}, {{"lower", kFlag}, {"diagonal", kInteger}}, triangle_shape,
            triangle),
  };
}

}  // namespace ttrace::specification
