// What an optimizer was told for one parameter in one step, checked: a manifest may say anything.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trace/manifest.h"

namespace ttrace::measure {

enum class Algorithm {
  kNone,   // in no parameter group: the parameter stays as it is
  kSgd,    // torch.optim.SGD
  kAdam,   // torch.optim.Adam: weight decay is part of the gradient
  kAdamW,  // torch.optim.AdamW: weight decay shrinks the parameter
};

struct Hyperparameters {
  Algorithm algorithm = Algorithm::kNone;
  double lr = 0;
  double weight_decay = 0;
  bool maximize = false;
  std::uint64_t updates = 1;        // of the parameter, this one included
  std::optional<double> clip_norm;  // positive
  // SGD
  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;
  // Adam, AdamW
  double beta1 = 0;
  double beta2 = 0;
  double eps = 0;
  bool amsgrad = false;
};

struct ReadHyperparameters {
  std::optional<Hyperparameters> values;
  std::string problem;  // without values: why, in words that hold for every parameter of the group
};

// The group's numbers, if its optimizer can be replayed with them: a known type, everything there
// that it needs, every number finite and in the range that torch.optim accepts.
ReadHyperparameters read_hyperparameters(const trace::OptimizerGroup& group);

// "lr 0.1, in the reference 0.2" for the first that has an effect and differs by more than the
// rounding of a single-precision copy; empty if none does.
std::string first_difference(const Hyperparameters& candidate, const Hyperparameters& reference);

}  // namespace ttrace::measure
