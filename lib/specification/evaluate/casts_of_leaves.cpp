#include "specification/evaluate/casts_of_leaves.h"

#include <optional>

#include "specification/evaluate/evaluation.h"
#include "specification/primitives/loops.h"
#include "specification/primitives/noise.h"
#include "tensor/codec.h"

namespace ttrace::specification {
namespace {

// By leaf, the narrower floating-point type that every use of it casts it to.
std::vector<std::optional<tensor::DType>> only_casts(const Expression& expression) {
  const std::size_t leaves = expression.leaves.size();
  std::vector<std::optional<tensor::DType>> found(leaves);
  std::vector<char> otherwise(leaves, 0);  // used without that cast as well
  if (expression.result < leaves) otherwise[expression.result] = 1;
  for (const Step& step : expression.steps) {
    const tensor::DType dtype = step.node->dtype;
    // A device's rounding to a type in which nothing is stored is not known to the bit.
    const bool casts = step.node->primitive->rounding == Rounding::kWhereNarrower &&
                       tensor::is_floating(dtype) && tensor::kept_in(dtype) == dtype;
    for (const std::uint32_t argument : step.arguments) {
      if (argument >= leaves) continue;
      const bool narrows =
          casts && unit_roundoff(dtype) > unit_roundoff(dtype_of_value(expression, argument));
      if (!narrows || (found[argument] && *found[argument] != dtype)) otherwise[argument] = 1;
      found[argument] = dtype;
    }
  }
  for (std::size_t l = 0; l < leaves; ++l) {
    if (otherwise[l] != 0) found[l].reset();
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
  const auto casts = only_casts(expression);
  bool any = false;
  for (std::uint32_t l = 0; l < count; ++l) {
    if (!expression.leaves[l].exact || !casts[l]) continue;
    leaves[l] = stored_as(leaves[l], *casts[l], context);
    expression.leaves[l].rounded_to = casts[l];
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

}  // namespace ttrace::specification
