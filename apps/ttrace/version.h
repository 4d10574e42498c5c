// The version of this build and the hardware features it can use.
#pragma once

#include <string>

namespace ttrace::app {

// "0.1.0"
std::string version();
// The instruction sets of this build that this machine supports, fastest first: "x86-64-v3,
// x86-64".
std::string instruction_sets();
// The text of `ttrace --version`.
std::string version_text();

}  // namespace ttrace::app
