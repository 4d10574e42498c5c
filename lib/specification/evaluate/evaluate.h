// Evaluates the expression of a tensor in binary64.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "measure/backend.h"
#include "measure/tensor_reader.h"
#include "specification/expression.h"
#include "specification/primitives/value.h"

namespace ttrace::specification {

// Another result that a healthy run may have computed. Either every input and every rounded
// operation is off by up to its unit roundoff, or nothing is rounded and choices among equal
// elements (`ties`) turn out differently.
struct Perturbation {
  std::uint64_t seed = 0;
  bool keeps_exact_leaves = false;  // inputs that are Leaf::exact are not off
  std::optional<double> ties{};     // instead of roundings; EvaluationCall::ties, in [0, 1)
};

struct ValueSharing;  // shared_values.h

// Returns what the tensor should be. `leaves` are the values of Expression::leaves, of any size
// where the specification leaves an extent open. The result is the same to the bit for any number
// of threads. Operands are freed after their last use. Throws an input error if the values' shapes
// do not fit the expression, or an index is out of range.
Value evaluate(const Expression& expression, std::span<const Value> leaves,
               const std::optional<Perturbation>& perturbation,
               const measure::ExecutionContext& context, const ValueSharing* sharing = nullptr);

// The value of a leaf whose elements stand in the specification.
Value constant_value(const SpecifiedTensor& tensor);

// Reads a whole tensor of a trace. Throws an input error if a shard cannot be read.
Value read_value(const measure::TensorRef& tensor);

// An upper bound of the bytes of the values that are alive at a time while `wanted` is evaluated,
// leaves included. An open extent counts as 1.
std::uint64_t peak_bytes(const Expression& expression, std::span<const std::uint32_t> wanted);

// An upper bound of the bytes for judging: the result and the recorded tensor, and beside them a
// second evaluation with simulated roundings.
std::uint64_t judging_bytes(const Expression& expression);

}  // namespace ttrace::specification
