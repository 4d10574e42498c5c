#include "localize/phase.h"

#include <iterator>

namespace ttrace::localize {

namespace {

// In the order of Phase.
constexpr std::string_view kNamesOfPhases[] = {"parameter", "input",     "forward",
                                               "loss",      "backward",  "synchronisation",
                                               "grad_norm", "optimizer", "state"};
static_assert(std::size(kNamesOfPhases) == static_cast<std::size_t>(Phase::kState) + 1);

}  // namespace

std::string_view phase_name(Phase phase) { return kNamesOfPhases[static_cast<std::size_t>(phase)]; }

Phase phase_of(const trace::TensorKey& key) {
  using trace::Kind;
  switch (key.kind) {
    case Kind::kParam:
    case Kind::kBuffer:
    case Kind::kOptimizerState:  // that the step begins with
      return Phase::kParameter;
    case Kind::kInput:
      return trace::module_of_value(key.name) == trace::kWholeModel ? Phase::kInput
                                                                    : Phase::kForward;
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
    case Kind::kBufferAfterStep:
      return Phase::kState;
  }
  return Phase::kForward;
}

}  // namespace ttrace::localize
