// Compares the settings of both runs' optimizers as data.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "comparison/pairing.h"
#include "comparison/result.h"
#include "comparison/selection.h"
#include "trace/manifest.h"

namespace ttrace::optimizer {

// Finds optimizer entries of a manifest by step and parameter.
class OptimizerIndex {
 public:
  // `manifest` must outlive the index.
  explicit OptimizerIndex(const trace::Manifest& manifest);

  bool knows_step(std::uint64_t step) const { return steps_.contains(step); }

  struct Found {
    const trace::OptimizerGroup* group = nullptr;  // null: in none
    bool twice = false;                            // in several
  };
  Found find(std::uint64_t step, const std::string& parameter) const;

  // Null if the manifest has no such tensor.
  const trace::TensorEntry* tensor(const trace::TensorKey& key) const;
  // The state `<parameter>.<state>` that the step of `parameter` begins with.
  const trace::TensorEntry* state(const trace::TensorKey& parameter, std::string_view state) const;

 private:
  std::set<std::uint64_t> steps_;
  std::map<std::pair<std::uint64_t, std::string>, Found> groups_;
  std::map<trace::TensorKey, const trace::TensorEntry*> tensors_;
};

// One setting of one parameter in one step that differs.
struct SettingPair {
  std::string name;       // "lr", "betas", "update", "optimizer", "clip_norm", "clipped_by"
  std::string reference;  // in words, "none" where there is none
  std::string candidate;

  bool operator==(const SettingPair&) const = default;
};

// Returns the settings that differ and have an effect, by name: numbers by more than the rounding
// of a single-precision copy, flags, the number of the update (one that was skipped or made twice),
// the optimizer. A number that only one side has is compared if torch.optim has a default for it (0
// for weight_decay, momentum, dampening; no clipping), else not. Different optimizers are the only
// difference reported, and only if both are known ("sgd", "adam", "adamw"); without weight decay
// Adam and AdamW are one. Plain SGD without decay does not depend on the number of its update.
std::vector<SettingPair> setting_differences(const trace::OptimizerGroup& reference,
                                             const trace::OptimizerGroup& candidate);

// Returns every setting of every selected parameter and step that differs, equal ones together; by
// step and name. A parameter that only one optimizer has in a group is a difference ("parameter
// group"). Steps that one of the manifests does not mention are not compared. Parameters are paired
// as their tensors are (a map may have renamed them), others by their names. Leaves out what a rule
// skips, and a clipping that one manifest does not mention if all of its updates match. `updates`
// are indices of `results`.
std::vector<comparison::SettingDifference> compare_settings(
    const trace::Manifest& reference, const trace::Manifest& candidate,
    const comparison::Selection& selection,
    const std::vector<comparison::TensorComparison>& results);

}  // namespace ttrace::optimizer
