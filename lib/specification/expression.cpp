#include "specification/expression.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "base/message.h"
#include "specification/describe.h"

namespace ttrace::specification {
namespace {

// The collector's name for a tensor that a step reads although no module received it and the script
// did not record it.
constexpr std::string_view kFromOutside = "a tensor from outside";

// Finds the tensors that must be computed, from the last to the first, and then lists the steps.
class Builder {
 public:
  Builder(const Specification& specification, std::size_t tensor, const IsRecorded& recorded)
      : specification_(specification), tensor_(tensor), recorded_(recorded) {}

  std::variant<Expression, NoExpression> build() {
    const std::size_t original = specification_.original(tensor_);
    if (const auto name = earlier_name(original)) return identity(*name);
    if (auto problem = require(original)) return *problem;
    while (!open_.empty()) {
      const std::uint32_t next = *open_.rbegin();
      open_.erase(next);
      for (const std::uint32_t input : specification_.tensors[next].from) {
        const auto value = static_cast<std::uint32_t>(specification_.original(input));
        if (leaf_of_.contains(value) || computed_.contains(value)) continue;
        if (auto problem = need(input)) return *problem;
      }
    }
    return listed(static_cast<std::uint32_t>(original));
  }

 private:
  // Returns the recorded tensor that the judged one must equal, if any. Of several recorded names
  // of a value, the first is judged by what the value was computed from and the others by an equal
  // name: names held only against each other would prove nothing. A given value has only its names.
  std::optional<std::uint32_t> earlier_name(std::size_t original) const {
    if (original == tensor_) return std::nullopt;
    const SpecifiedTensor& value = specification_.tensors[original];
    const bool is_given = !value.pattern && value.opaque.empty();
    const auto name = recorded_name(tensor_);
    return name && (is_given || *name < tensor_) ? name : std::nullopt;
  }

  // A recorded tensor with the bits of `tensor`, other than the one that is judged.
  std::optional<std::uint32_t> recorded_name(std::size_t tensor) const {
    if (tensor != tensor_ && recorded_(tensor)) return static_cast<std::uint32_t>(tensor);
    for (const std::uint32_t name : specification_.names_of_value(tensor)) {
      if (name != tensor_ && recorded_(name)) return name;
    }
    return std::nullopt;
  }

  std::optional<NoExpression> need(std::uint32_t tensor) {
    const auto original = static_cast<std::uint32_t>(specification_.original(tensor));
    if (const auto name = recorded_name(tensor)) {
      leaf_of_[original] = {*name};
      return std::nullopt;
    }
    if (!specification_.tensors[original].values.empty()) {
      leaf_of_[original] = {original, true, true};
      return std::nullopt;
    }
    return require(original);
  }

  // Notes that the tensor must be computed, or returns why it cannot be.
  std::optional<NoExpression> require(std::size_t original) {
    const auto number = static_cast<std::uint32_t>(original);
    if (computed_.contains(number)) return std::nullopt;
    const SpecifiedTensor& tensor = specification_.tensors[original];
    const bool own = original == specification_.original(tensor_);
    if (!tensor.opaque.empty()) {
      return NoExpression{NoExpression::Why::kOpaque, number, opaque_reason(original, own)};
    }
    if (!tensor.pattern) {
      if (own) {
        return NoExpression{NoExpression::Why::kGiven, number, base::render({"it is given", {}})};
      }
      return NoExpression{NoExpression::Why::kNotRecorded, number,
                          base::render({"needs {tensor}, which is not recorded",
                                        {{"tensor", describe_tensor(specification_, original)}}})};
    }
    const Pattern& pattern = specification_.patterns[*tensor.pattern];
    steps_ += pattern.nodes.size();
    for (const Node& node : pattern.nodes) arguments_ += node.arguments.size();
    if (steps_ > kMostSteps || arguments_ > kMostArguments) {
      return NoExpression{
          NoExpression::Why::kTooLarge, number,
          steps_ > kMostSteps
              ? base::render({"needs more than {most} operations from what is recorded",
                              {{"most", kMostSteps}}})
              : base::render({"its operations take more than {most} arguments",
                              {{"most", kMostArguments}}})};
    }
    computed_.insert(number);
    open_.insert(number);
    return std::nullopt;
  }

  static bool is_draw(const std::string& operation) {
    static const std::set<std::string> kDraws{"aten.bernoulli", "aten.multinomial", "aten.normal",
                                              "aten.poisson"};
    return operation.starts_with("aten.rand") || kDraws.contains(operation);
  }

  // Why there is no expression of the tensor that an operation without a primitive makes: of the
  // judged one itself (`own`), or of one that it needs.
  std::string opaque_reason(std::size_t original, bool own) const {
    const std::string& operation = specification_.tensors[original].opaque;
    return base::render(
        {operation == kFromOutside
             ? "[{needed} is not recorded and ]computed from a tensor that no module receives and "
               "nobody recorded, such as labels; tracer.loss(loss, labels=labels) records it"
         : is_draw(operation)
             ? "[{needed} is not recorded and ]computed by {operation}, which draws at random; "
               "tracer.scalar(name, tensor) records what it drew"
             : "[{needed} is not recorded and ]computed by {operation}, which no primitive "
               "expresses",
         {{"needed", own ? std::string() : describe_tensor(specification_, original)},
          {"operation", operation}}});
  }

  Expression identity(std::uint32_t leaf) const {
    Expression expression;
    expression.specification = &specification_;
    expression.tensor = static_cast<std::uint32_t>(tensor_);
    expression.leaves.push_back({leaf});
    return expression;
  }

  Expression listed(std::uint32_t original) const {
    Expression expression;
    expression.specification = &specification_;
    expression.tensor = static_cast<std::uint32_t>(tensor_);
    std::map<std::uint32_t, std::uint32_t> leaf_values;  // leaf -> value
    for (const auto& [value, leaf] : leaf_of_) leaf_values.emplace(leaf.tensor, 0);
    for (auto& [leaf, value] : leaf_values) {
      value = static_cast<std::uint32_t>(expression.leaves.size());
      const auto constant = leaf_of_.find(leaf);
      const bool is_constant = constant != leaf_of_.end() && constant->second.tensor == leaf &&
                               constant->second.constant;
      expression.leaves.push_back({leaf, is_constant, is_constant});
    }
    std::map<std::uint32_t, std::uint32_t> value_of;  // original -> value
    for (const auto& [value, leaf] : leaf_of_) value_of[value] = leaf_values.at(leaf.tensor);
    for (const std::uint32_t tensor : computed_) {
      const SpecifiedTensor& computed = specification_.tensors[tensor];
      const Pattern& pattern = specification_.patterns[*computed.pattern];
      std::vector<std::uint32_t> values;
      for (const std::uint32_t input : computed.from) {
        values.push_back(value_of.at(static_cast<std::uint32_t>(specification_.original(input))));
      }
      for (const Node& node : pattern.nodes) {
        Step step{&node, {}};
        for (const std::uint32_t argument : node.arguments) {
          step.arguments.push_back(values[argument]);
        }
        values.push_back(
            static_cast<std::uint32_t>(expression.leaves.size() + expression.steps.size()));
        expression.steps.push_back(std::move(step));
      }
      value_of[tensor] = values.back();
    }
    expression.result = value_of.at(original);
    expression.computed.assign(computed_.begin(), computed_.end());
    return expression;
  }

  const Specification& specification_;
  const std::size_t tensor_;
  const IsRecorded& recorded_;
  std::map<std::uint32_t, Leaf> leaf_of_;  // original -> the leaf that has its bits
  std::set<std::uint32_t> computed_;       // originals
  std::set<std::uint32_t> open_;           // of them, whose inputs are not settled
  std::size_t steps_ = 0;
  std::size_t arguments_ = 0;
};

}  // namespace

std::variant<Expression, NoExpression> expression_of(const Specification& specification,
                                                     std::size_t tensor,
                                                     const IsRecorded& recorded) {
  return Builder(specification, tensor, recorded).build();
}

}  // namespace ttrace::specification
