// The plan of two runs in which what modules receive is overwritten, so that no error travels
// between them (schemas/plan-v1.md).
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "trace/source.h"

namespace ttrace::localize {

// The distribution of the values that overwrite a module's tensor.
struct PlannedValues {
  std::uint64_t index = 0;  // among the module's tensors
  double mean = 0;
  double std = 1;
};

struct PlannedModule {
  std::string name;
  std::vector<PlannedValues> inputs;
  std::vector<PlannedValues> grad_outputs;
};

struct RewritingPlan {
  std::uint64_t seed = 1;
  std::vector<PlannedModule> modules;
};

// Plans two runs in which no error travels between these modules (isolation_plan.cpp). Overwrites
// their floating-point inputs and output gradients that both runs recorded, with mean and deviation
// as the reference has them in its first step and micro-batch. Leaves alone what has at most two
// different values or values that are not finite, as masks have, and what lies in rows by index,
// which the collector cannot generate. Throws an input error if nothing is left.
RewritingPlan isolation_plan(const trace::Source& reference, const trace::Source& candidate,
                             const std::set<std::string>& modules);

}  // namespace ttrace::localize
