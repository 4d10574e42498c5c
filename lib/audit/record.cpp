#include "audit/record.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace ttrace::audit {

using trace::Kind;

namespace {

AuditOutcome outcome_of(const AuditedTensor& tensor) {
  if (tensor.broken_check() != nullptr) return AuditOutcome::kBroken;
  const auto judged = [&](CheckResult result) {
    return std::any_of(tensor.checks.begin(), tensor.checks.end(), [&](const AuditCheck& check) {
      return judges_value(check) && check.result == result;
    });
  };
  if (judged(CheckResult::kConsistent)) return AuditOutcome::kHolds;
  if (judged(CheckResult::kBelowBound)) return AuditOutcome::kBelowBound;
  return tensor.outcome == AuditOutcome::kGiven ? AuditOutcome::kGiven : AuditOutcome::kNotJudged;
}

// A value that differs between replicas, or is not finite, makes what is computed from it differ,
// or not finite, too.
bool travels(const std::string& operation) {
  return operation == "replicas" || operation == "finite values";
}

std::set<std::string> broken_operations(const AuditedTensor& tensor) {
  std::set<std::string> operations;
  for (const AuditCheck& check : tensor.checks) {
    if (check.result == CheckResult::kInconsistent) operations.insert(check.operation);
  }
  return operations;
}

// The gradients of parameters by step, micro-batch, kind and module.
class Gradients {
 public:
  explicit Gradients(const std::vector<AuditedTensor>& tensors) : tensors_(tensors) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (is_gradient(tensors[i])) by_module_[place_of(tensors[i])].push_back(i);
    }
  }

  static bool is_gradient(const AuditedTensor& tensor) {
    return tensor.key.kind == Kind::kParamGrad || tensor.key.kind == Kind::kMainGrad;
  }

  // Whether the gradient, whose bound is as large as itself, is 0 but for rounding: its elements
  // and their possible rounding are small against the elements of the module's largest other
  // gradient, which holds. The gradients of the keys' biases are an example: softmax ignores what
  // all scores of a row have in common, so that the terms of their sums cancel.
  bool vanishes(const AuditedTensor& tensor) const {
    const AuditedTensor* weight = nullptr;
    for (const std::size_t i : by_module_.at(place_of(tensor))) {
      const AuditedTensor& other = tensors_[i];
      if (other.outcome != AuditOutcome::kHolds || elements(other) < elements(tensor)) continue;
      if (weight == nullptr || elements(other) > elements(*weight)) weight = &other;
    }
    if (weight == nullptr || !weight->norm || !tensor.norm) return false;
    const double size = *weight->norm / std::sqrt(elements(*weight));
    double own = *tensor.norm;
    for (const AuditCheck& check : tensor.checks) {
      if (check.result == CheckResult::kBelowBound) own = std::max(own, check.allowed);
    }
    return own / std::sqrt(elements(tensor)) <= kSmallAgainstWeight * size;
  }

 private:
  using Place = std::tuple<std::uint64_t, std::optional<std::uint64_t>, Kind, std::string>;

  // A ratio of root mean squares.
  static constexpr double kSmallAgainstWeight = 1.0 / 16;

  static Place place_of(const AuditedTensor& tensor) {
    return {tensor.key.step, tensor.key.microbatch, tensor.key.kind, module_of(tensor.key)};
  }
  static double elements(const AuditedTensor& tensor) {
    return static_cast<double>(
        std::max<std::uint64_t>(tensor::element_count(tensor.shape).value_or(1), 1));
  }

  const std::vector<AuditedTensor>& tensors_;
  std::map<Place, std::vector<std::size_t>> by_module_;
};

}  // namespace

std::set<std::string> travelling(const AuditedTensor& tensor) {
  std::set<std::string> operations = broken_operations(tensor);
  std::erase_if(operations, [](const std::string& operation) { return !travels(operation); });
  return operations;
}

void mark_downstream(std::vector<AuditedTensor>& tensors) {
  std::map<trace::TensorKey, std::set<std::string>> broken;
  std::map<std::uint64_t, std::set<std::string>> broken_gradients;  // by step
  for (const AuditedTensor& tensor : tensors) {
    if (tensor.outcome != AuditOutcome::kBroken) continue;
    broken.emplace(tensor.key, broken_operations(tensor));
    if (tensor.key.kind == Kind::kMainGrad) {
      broken_gradients[tensor.key.step].merge(broken_operations(tensor));
    }
  }
  for (AuditedTensor& tensor : tensors) {
    if (tensor.outcome != AuditOutcome::kBroken) continue;
    std::set<std::string> open = broken_operations(tensor);
    const auto explain_by = [&](const std::set<std::string>& operations) {
      for (const std::string& operation : operations) {
        if (travels(operation)) open.erase(operation);
      }
      // The replica that each rank computed with is not known: the checks took the first one.
      if (operations.contains("replicas")) {
        for (const char* taken : {"expression", "identity", "sum of raw gradients", "gradient norm",
                                  "optimizer step"}) {
          open.erase(taken);
        }
      }
    };
    std::vector<trace::TensorKey> parents = tensor.follows_from;
    if (tensor.key.kind == Kind::kParamAfterStep) {
      for (const Kind kind : {Kind::kParam, Kind::kMainGrad}) {
        parents.push_back(tensor.key);
        parents.back().kind = kind;
      }
      trace::TensorKey norm = tensor.key;
      norm.kind = Kind::kGradNorm;
      norm.name = "grad_norm";
      // An update of a part follows from the norm of that part.
      const bool of_part = std::ranges::any_of(
          parents, [](const trace::TensorKey& key) { return key.kind == Kind::kGradNorm; });
      if (!of_part) parents.push_back(std::move(norm));
    }
    for (const trace::TensorKey& parent : parents) {
      if (const auto found = broken.find(parent); found != broken.end()) explain_by(found->second);
    }
    if (tensor.key.kind == Kind::kGradNorm) explain_by(broken_gradients[tensor.key.step]);
    tensor.downstream = open.empty();
  }
}

void settle_outcomes(std::vector<AuditedTensor>& tensors) {
  for (AuditedTensor& tensor : tensors) tensor.outcome = outcome_of(tensor);
  const Gradients gradients(tensors);
  for (AuditedTensor& tensor : tensors) {
    if (tensor.outcome != AuditOutcome::kBelowBound || !Gradients::is_gradient(tensor)) continue;
    if (gradients.vanishes(tensor)) tensor.outcome = AuditOutcome::kZeroWithinRounding;
  }
}

}  // namespace ttrace::audit
