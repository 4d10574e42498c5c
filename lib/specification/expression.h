// The expression of one tensor over the tensors that a trace holds: its pattern, in which every
// tensor that the trace lacks is replaced by its own pattern.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "specification/specification.h"

namespace ttrace::specification {

// An input of an expression.
struct Leaf {
  std::uint32_t tensor = 0;  // number in Specification::tensors
  bool constant = false;     // its elements stand in the specification, the trace need not hold it
  // Its value is bit for bit what the run computed with, as far as the trace says.
  bool exact = false;
  // Its value was rounded to this type, by a cast that is no step of the expression any more.
  std::optional<tensor::DType> rounded_to = std::nullopt;
};

// An operation, with the values it takes: v < leaves.size() is a leaf, else step v - leaves.size().
struct Step {
  const Node* node = nullptr;  // of the specification; its own arguments do not count here
  std::vector<std::uint32_t> arguments;
};

// Valid as long as the specification.
struct Expression {
  const Specification* specification = nullptr;
  std::uint32_t tensor = 0;             // whose expression it is
  std::vector<Leaf> leaves;             // each tensor once, in the order of the specification
  std::vector<Step> steps;              // in an order of computation
  std::uint32_t result = 0;             // the value that the tensor should be
  std::vector<std::uint32_t> computed;  // originals whose values the steps compute, in order
};

// Why a tensor has no expression over recorded tensors.
struct NoExpression {
  enum class Why {
    kGiven,        // a parameter, a buffer, a batch: it follows from nothing
    kOpaque,       // an operation that no primitive expresses
    kNotRecorded,  // it needs a given tensor that is not recorded
    kTooLarge,     // more than kMostSteps operations or kMostArguments arguments
  };

  Why why = Why::kGiven;
  std::uint32_t tensor = 0;  // that is opaque or not recorded
  std::string reason;        // "needs the input ids of model, which are not recorded"
};

inline constexpr std::size_t kMostSteps = 100'000;
// The most arguments of all operations of an expression together.
inline constexpr std::size_t kMostArguments = 400'000;

// Whether the trace holds a tensor of the specification.
using IsRecorded = std::function<bool(std::size_t tensor)>;

// Finds the expression of a tensor. A tensor that is another name of one value must equal another
// recorded name of it where there is one. The tensor itself is never among the leaves.
std::variant<Expression, NoExpression> expression_of(const Specification& specification,
                                                     std::size_t tensor,
                                                     const IsRecorded& recorded);

}  // namespace ttrace::specification
