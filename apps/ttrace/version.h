// What this build is and what it can use.
#pragma once

#include <string>

namespace ttrace::app {

// "0.1.0"
std::string version();
// Those that this build has and this machine can run, the fastest first: "x86-64-v3, x86-64".
std::string instruction_sets();
// Several lines for `ttrace --version`.
std::string version_text();

}  // namespace ttrace::app
