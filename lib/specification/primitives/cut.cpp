#include "specification/primitives/cut.h"

#include "specification/primitives/primitive.h"

namespace ttrace::specification {

using tensor::Shape;

Value Cut::of(const Value& whole) const {
  return whole.sliced(dim, start, start + (count - 1) * step + 1, step);
}

std::optional<Cut> cut_of_broadcast(const CutCall& call, const Shape& argument, const Cut& cut) {
  const std::size_t added = call.shape.size() - argument.size();
  if (cut.dim < added || argument[cut.dim - added] == 1) return std::nullopt;
  return cut.along(cut.dim - added);
}

std::optional<ArgumentCuts> cut_alike(const CutCall& call) {
  return ArgumentCuts(call.arguments.size(), call.cut);
}

std::optional<ArgumentCuts> cut_broadcast(const CutCall& call) {
  ArgumentCuts cuts;
  for (const Shape* argument : call.arguments) {
    cuts.push_back(cut_of_broadcast(call, *argument, call.cut));
  }
  return cuts;
}

std::optional<ArgumentCuts> cut_across_lines(const CutCall& call) {
  if (call.cut.dim == static_cast<std::size_t>(call.attributes.integer("dim"))) return std::nullopt;
  return cut_alike(call);
}

}  // namespace ttrace::specification
