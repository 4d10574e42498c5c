#include "localize/phase.h"

namespace ttrace::localize {

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

std::string_view describe_phase(Phase phase) {
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

Phase phase_of(const trace::TensorKey& key) {
  using trace::Kind;
  switch (key.kind) {
    case Kind::kParam:
    case Kind::kBuffer:
    case Kind::kOptimizerState:  // that the step begins with
      return Phase::kParameter;
    case Kind::kInput:
      return trace::module_of_value(key.name) == "(model)" ? Phase::kInput : Phase::kForward;
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

}  // namespace ttrace::localize
