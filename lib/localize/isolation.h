// Modules in isolation: a plan for two runs that overwrites the inputs of modules, so that no error
// travels between them (schemas/plan-v1.md), and the verdict of such runs on each module.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "answer/verdict.h"
#include "localize/phase.h"
#include "trace/key.h"
#include "trace/manifest.h"
#include "trace/source.h"

namespace ttrace::localize {

struct ReportedComparison;

// The words for the verdict of a module.
inline constexpr answer::VerdictWords kIsolationWords{"holds", "at_fault", "not_judged"};

// A module that a plan has isolated, judged by comparing two runs under that plan.
struct IsolatedModule {
  std::string module;
  std::string class_name;
  std::string called_at;
  // Right: it received the same as in the reference and gave the same. Wrong: it gave something
  // else. Inconclusive: `reason`.
  answer::Verdict verdict = answer::Verdict::kRight;
  Phase phase = Phase::kForward;        // in which it is at fault first
  std::vector<trace::TensorKey> wrong;  // in the order of the step
  std::string reason;  // why it was not judged; or that what is wrong comes from a module inside
};

// Judges the modules of the plan of both runs, in the order of their names. A tensor that is wrong
// belongs to the innermost isolated module that holds it. An output is blamed on a container only
// if the outputs of all isolated modules inside it are right. Losses, norms and updates are of many
// modules and blamed on none.
std::vector<IsolatedModule> judge_isolated(const trace::Manifest& reference,
                                           const trace::Manifest& candidate,
                                           const ReportedComparison& compared);

}  // namespace ttrace::localize
