// The CPU as a backend. It computes every request when it is added.
#pragma once

#include <string_view>

#include "measure/backend.h"

namespace ttrace::measure {

// The CPU with its fastest instruction set.
const Backend& cpu_backend();

// With the instruction set `isa`, on which no result depends. Throws a usage error that names the
// usable ones if this machine or this build does not have it.
const Backend& cpu_backend(std::string_view isa);

}  // namespace ttrace::measure
