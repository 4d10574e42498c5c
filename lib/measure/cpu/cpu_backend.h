// The CPU as a backend. It computes every request when it is added.
#pragma once

#include <span>
#include <string_view>

#include "measure/backend.h"

namespace ttrace::measure {

// Returns the CPU with the instruction set `isa`, on which no result depends. Throws a usage error
// that names the usable ones if this machine or this build does not have it.
const Backend& cpu_backend(std::string_view isa);

// Returns the statistics of a box (in coordinates of the logical tensor) whose values are
// `reference` and `candidate`, row-major, as the CPU backend makes them of a pair.
TileStats box_stats(const tensor::Box& box, std::span<const double> reference,
                    std::span<const double> candidate);

}  // namespace ttrace::measure
