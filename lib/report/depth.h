// A picture of a step in one line: per kind a row of bars, from the first layer to the last, as
// high as the worst error is beyond what is allowed.
#pragma once

#include <cstdint>
#include <string>

#include "comparison/result.h"

namespace ttrace::report {

// "param ▁▁▁  forward ▁▁▁▁  loss ▁  raw grad ▁▁▁  main_grad ███  update ███": ▁ is within what is
// allowed, ? was not checked. Empty where nothing was compared in the step.
std::string depth_picture(const comparison::CompareReport& report, std::uint64_t step);

// "parameters, forward and loss": what comes before `phase` in the step and is right as a whole.
// What holds tensors that were not judged is not named.
std::string describe_right_before(const comparison::CompareReport& report, std::uint64_t step,
                                  trace::Kind first);

}  // namespace ttrace::report
