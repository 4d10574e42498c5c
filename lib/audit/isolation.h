// Modules in isolation: the plan of two runs in which what modules receive is overwritten, so that
// no error travels between them (schemas/plan-v1.md), and what such runs say of each module.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "localize/phase.h"
#include "trace/key.h"
#include "trace/manifest.h"
#include "trace/source.h"

namespace ttrace::audit {

struct ReportedComparison;

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

enum class IsolatedVerdict {
  kAtFault,    // it received the same as in the reference and gave something else
  kHolds,      // it gave the same
  kNotJudged,  // `reason`
};

// "at_fault", "holds", "not_judged": names in the JSON report.
std::string_view isolated_verdict_name(IsolatedVerdict verdict);

// A module that a plan has isolated, judged by comparing two runs under that plan.
struct IsolatedModule {
  std::string module;
  std::string class_name;
  std::string called_at;
  IsolatedVerdict verdict = IsolatedVerdict::kHolds;
  localize::Phase phase = localize::Phase::kForward;  // in which it is at fault first
  std::vector<trace::TensorKey> wrong;                // in the order of the step
  std::string reason;  // why it was not judged; or that what is wrong comes from a module inside
};

// Plans two runs in which no error travels between these modules (isolation_plan.cpp). Overwrites
// their floating-point inputs and output gradients that both runs recorded, with mean and deviation
// as the reference has them in its first step and micro-batch. Leaves alone what has at most two
// different values or values that are not finite, as masks have, and what lies in rows by index,
// which the collector cannot generate. Throws an input error if nothing is left.
RewritingPlan isolation_plan(const trace::Source& reference, const trace::Source& candidate,
                             const std::set<std::string>& modules);

// Judges the modules of the plan of both runs, in the order of their names. A tensor that is wrong
// belongs to the innermost isolated module that holds it. An output is blamed on a container only
// if the outputs of all isolated modules inside it are right. Losses, norms and updates are of many
// modules and blamed on none.
std::vector<IsolatedModule> judge_isolated(const trace::Manifest& reference,
                                           const trace::Manifest& candidate,
                                           const ReportedComparison& compared);

}  // namespace ttrace::audit
