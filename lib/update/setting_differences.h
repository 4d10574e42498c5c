// What two optimizers were told for one parameter in one step, held against each other as data.
#pragma once

#include <string>
#include <vector>

#include "trace/manifest.h"

namespace ttrace::update {

struct SettingPair {
  std::string name;       // "lr", "betas", "update", "optimizer", "clip_norm", "nesterov"
  std::string reference;  // in words, "none" where there is none
  std::string candidate;

  bool operator==(const SettingPair&) const = default;
};

// What differs and has an effect, by name: numbers by more than the rounding of a single-precision
// copy, flags, the number of the update (one that was skipped or made twice), the optimizer. A
// number that only one side has is compared if torch.optim has a default for it (0 for
// weight_decay, momentum, dampening; no clipping), else not. Of different optimizers only that is
// told, and only if both are known ("sgd", "adam", "adamw"); without weight decay Adam and AdamW
// are one. Plain SGD without decay does not depend on the number of its update.
std::vector<SettingPair> setting_differences(const trace::OptimizerGroup& reference,
                                             const trace::OptimizerGroup& candidate);

}  // namespace ttrace::update
