#include "verdict/phase.h"

#include <algorithm>

namespace ttrace::verdict {

std::string_view phase_name(Phase phase) {
  switch (phase) {
    case Phase::kParameter:
      return "parameter";
    case Phase::kInput:
      return "input";
    case Phase::kForward:
      return "forward";
    case Phase::kLoss:
      return "loss";
    case Phase::kBackward:
      return "backward";
    case Phase::kSynchronisation:
      return "synchronisation";
    case Phase::kGradNorm:
      return "grad_norm";
    case Phase::kOptimizer:
      return "optimizer";
  }
  return "";
}

std::string_view phase_words(Phase phase) {
  switch (phase) {
    case Phase::kParameter:
      return "before the step, parameters";
    case Phase::kInput:
      return "before the step, input data";
    case Phase::kForward:
      return "forward";
    case Phase::kLoss:
      return "loss";
    case Phase::kBackward:
      return "backward";
    case Phase::kSynchronisation:
      return "backward, gradient synchronisation";
    case Phase::kGradNorm:
      return "gradient norm";
    case Phase::kOptimizer:
      return "optimizer";
  }
  return "";
}

std::string_view module_of_value(std::string_view name) {
  if (name.empty() || name.back() != ']') return name;
  const std::size_t open = name.rfind('[');
  if (open == std::string_view::npos || open == 0 || open + 2 > name.size() - 1) return name;
  const std::string_view digits = name.substr(open + 1, name.size() - open - 2);
  const bool numeric =
      std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  return numeric ? name.substr(0, open) : name;
}

Phase phase_of(const trace::TensorKey& key) {
  using trace::Kind;
  switch (key.kind) {
    case Kind::kParam:
    case Kind::kBuffer:
    case Kind::kOptimizerState:  // that the step begins with
      return Phase::kParameter;
    case Kind::kInput:
      return module_of_value(key.name) == "(model)" ? Phase::kInput : Phase::kForward;
    case Kind::kOutput:
    case Kind::kIndex:
    case Kind::kScalar:
      return Phase::kForward;
    case Kind::kLoss:
      return Phase::kLoss;
    case Kind::kGradOutput:
    case Kind::kGradInput:
    case Kind::kParamGrad:
      return Phase::kBackward;
    case Kind::kMainGrad:
      return Phase::kSynchronisation;
    case Kind::kGradNorm:
      return Phase::kGradNorm;
    case Kind::kParamAfterStep:
      return Phase::kOptimizer;
  }
  return Phase::kForward;
}

}  // namespace ttrace::verdict
