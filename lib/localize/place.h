// The place in the code at which a finding points: a module, the code between two modules, the
// gradient synchronisation or the optimizer. `compare`, `localize` and `audit` name the same ones.
#pragma once

#include <string>
#include <string_view>

#include "comparison/result.h"
#include "trace/key.h"

namespace ttrace::localize {

enum class PlaceKind { kModule, kBetween, kSynchronisation, kOptimizer };

struct Place {
  PlaceKind kind = PlaceKind::kModule;
  // The module; the module around the code between two; the axis of the synchronisation, or empty.
  std::string of;
};

// Returns the place of a tensor that is wrong although what it was computed from is right.
// - An input of a module: the code that calls the module, which is the forward of the module around
//   it.
// - The gradient of a module's output: what reads the output makes it in its backward, and the
// module
//   has no part in it. The place is the code between the modules of the module around it, with the
//   backward of those that read it.
// - A main gradient: the synchronisation over `axis`. Where no raw gradient of it was recorded, the
//   backward may be wrong as well, and the place is the module.
// - A gradient norm or an updated parameter: the optimizer.
// - All else: the module. An input of the model is the model's.
Place place_of(const trace::TensorKey& key, bool has_raw_gradient, const std::string& axis);

// The place of a finding about a single tensor, from its first cause and the tensors that it
// depends on.
Place place_of(const comparison::CompareReport& report, const comparison::ComparedFinding& finding);

// Name in JSON: "module", "between", "synchronisation", "optimizer".
std::string_view name_of(PlaceKind kind);

}  // namespace ttrace::localize
