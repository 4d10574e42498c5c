// What is known of the place that text for people goes to.
#pragma once

#include <cstddef>
#include <string>

namespace ttrace::app {

// Columns to fold text to: $COLUMNS where it is set, else the terminal's, else 80.
std::size_t text_width(int descriptor);

// `choice`: always, never, or auto: on a terminal, unless $NO_COLOR says no.
bool wants_colour(int descriptor, const std::string& choice);

}  // namespace ttrace::app
