// Masters: the wider copies that an optimizer updates in the place of a model's parameters. A step
// begins with a model that holds their roundings. If it does not, weights were loaded into one of
// the two alone, and the step undoes that (Megatron-LM pull request 5071).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "comparison/measure_pairs.h"
#include "comparison/tensor_comparison.h"
#include "measure/backend.h"
#include "trace/source.h"

namespace ttrace::optimizer {

// What the name of a parameter's master ends with.
inline constexpr std::string_view kMainCopy = ".main_param";

// Compares every recorded master with the parameter before the step, both of the candidate. Where
// an element of the parameter is neither of the two numbers of its type beside the master's
// (optimizers round either way), the master takes this measurement, or the update where the
// reference has no such master: its `replay` is of comparison::kOfMaster. If the reference's own
// masters are not what its model holds, too, the job means something else by them and the update
// stays as it is. Masters whose files lie on another machine are not looked at: a part there has
// judged the update. Returns a warning of either, if any. Leaves out parameters of types in which
// no optimizer computes. If `hooks` stop the work, the rest stays as it is. The same for every
// number of threads.
std::vector<std::string> judge_masters(const trace::Source& reference,
                                       const trace::Source& candidate,
                                       const measure::ExecutionContext& execution,
                                       const comparison::WorkHooks& hooks,
                                       std::vector<comparison::TensorComparison>& results);

}  // namespace ttrace::optimizer
