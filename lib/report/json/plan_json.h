// The plan of a second pair of runs as JSON (schemas/plan-v1.md).
#pragma once

#include <string>

#include "localize/isolation_plan.h"

namespace ttrace::report {

// The plan of a second pair of runs, as schemas/plan-v1.md says.
std::string plan_json(const localize::RewritingPlan& plan);

}  // namespace ttrace::report
