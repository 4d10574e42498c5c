// Finds what is installed: this program, and beside it the Python packages that record traces.
// Starts no Python, since importing torch takes seconds: the names of package folders give the
// versions.
#pragma once

#include <vector>

#include "engine/doctor/examine.h"

namespace ttrace::app {

std::vector<engine::Diagnosis> examine_installation();

}  // namespace ttrace::app
