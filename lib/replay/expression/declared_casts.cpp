#include "replay/expression/declared_casts.h"

#include <optional>

#include "replay/expression/evaluation.h"
#include "replay/primitives/loops.h"
#include "replay/primitives/noise.h"
#include "tensor/codec.h"

namespace ttrace::replay {
namespace {

// The narrower floating-point type that every use of the leaf casts it to.
std::optional<tensor::DType> only_cast(const Expression& expression, std::uint32_t leaf) {
  std::optional<tensor::DType> found;
  if (expression.result == leaf) return std::nullopt;
  for (const Step& step : expression.steps) {
    for (const std::uint32_t argument : step.arguments) {
      if (argument != leaf) continue;
      const tensor::DType dtype = step.node->dtype;
      const bool narrows = step.node->primitive->rounding == Rounding::kCast &&
                           tensor::is_floating(dtype) &&
                           unit_roundoff(dtype) > unit_roundoff(dtype_of_value(expression, leaf));
      if (!narrows || (found && *found != dtype)) return std::nullopt;
      found = dtype;
    }
  }
  return found;
}

Value stored_as(const Value& value, tensor::DType dtype, const measure::ExecutionContext& context) {
  const Value dense = value.to_dense();
  Value result = Value::uninitialised(value.shape());
  const double* in = dense.data();
  double* out = result.fresh();
  for_ranges(context, result.size(), kElementsPerCall, [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t i = begin; i < end; ++i) out[i] = tensor::round_to(dtype, in[i]);
  });
  return result;
}

}  // namespace

void take_casts_into_leaves(Expression& expression, std::vector<Value>& leaves,
                            const measure::ExecutionContext& context) {
  const auto count = static_cast<std::uint32_t>(expression.leaves.size());
  bool any = false;
  for (std::uint32_t l = 0; l < count; ++l) {
    if (!expression.leaves[l].exact) continue;
    const auto dtype = only_cast(expression, l);
    if (!dtype) continue;
    leaves[l] = stored_as(leaves[l], *dtype, context);
    expression.leaves[l].rounded_to = dtype;
    any = true;
  }
  if (!any) return;
  std::vector<std::uint32_t> moved;  // value -> its new number
  for (std::uint32_t l = 0; l < count; ++l) moved.push_back(l);
  std::vector<Step> kept;
  for (Step& step : expression.steps) {
    const std::uint32_t from = step.arguments.empty() ? count : step.arguments.front();
    if (from < count && expression.leaves[from].rounded_to) {
      moved.push_back(from);
      continue;
    }
    for (std::uint32_t& argument : step.arguments) argument = moved[argument];
    moved.push_back(count + static_cast<std::uint32_t>(kept.size()));
    kept.push_back(std::move(step));
  }
  expression.steps = std::move(kept);
  expression.result = moved[expression.result];
}

}  // namespace ttrace::replay
