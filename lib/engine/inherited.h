// What the fallback rule knows of the run beside the tensor: how its numbers are rounded, and how
// far apart the parameters are that a step begins with.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "report/compare_report.h"

namespace ttrace::engine {

// Whether the manifest's words on the precision speak of fp8.
bool has_fp8(const std::string& precision);

// By step, ‖C - R‖ / ‖R‖ of all parameters together that the step begins with; of steps after an
// update only, since nothing has moved the parameters before. What is not finite is left out.
std::map<std::uint64_t, double> parameters_apart(const std::vector<report::Result>& results);

// Whether a tensor of this kind is computed from the step's parameters.
bool inherits(trace::Kind kind);

}  // namespace ttrace::engine
