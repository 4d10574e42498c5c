// Mistyped commands and options.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace ttrace::app {

// "no command "comapre"; did you mean "compare"?" of a command line that could not be parsed, or
// empty if no word of it is an unknown command or option. `words`: those after the program's name.
std::string unknown_word(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace ttrace::app
