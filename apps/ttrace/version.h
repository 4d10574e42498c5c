// What this build is and what it can use.
#pragma once

#include <string>

namespace ttrace::app {

// "0.1.0"
std::string version();
// The instruction set the kernels were compiled for.
std::string instruction_set();
// Several lines for `ttrace --version`.
std::string version_text();

}  // namespace ttrace::app
