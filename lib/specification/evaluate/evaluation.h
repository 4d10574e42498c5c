// Evaluates chosen values of an expression, for what evaluates and judges it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "specification/evaluate/evaluate.h"
#include "specification/evaluate/sample.h"

namespace ttrace::specification {

// Evaluates as evaluate() any values of the expression, in the order of `wanted`; with a sample,
// the cuts of them that it has.
std::vector<Value> evaluate_values(const Expression& expression, std::span<const Value> leaves,
                                   std::span<const std::uint32_t> wanted,
                                   const std::optional<Perturbation>& perturbation,
                                   const measure::ExecutionContext& context,
                                   const Sample* sample = nullptr,
                                   const ValueSharing* sharing = nullptr);

// The type to which a value is rounded.
tensor::DType dtype_of_value(const Expression& expression, std::uint32_t value);

// Value · (1 + u·ξ), u the unit roundoff of `dtype`; elements of at most `exact` stay as they are.
Value rounded(const Value& value, tensor::DType dtype, const Noise& noise,
              const measure::ExecutionContext& context, double exact = 0);

}  // namespace ttrace::specification
