// The terminal: its width and colours, and the progress line on stderr.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/log.h"

namespace ttrace::app {

// Columns to fold text to: $COLUMNS where it is set, else the terminal's, else 80.
std::size_t text_width(int descriptor);

// `choice`: always, never, or auto: on a terminal, unless $NO_COLOR says no.
bool wants_colour(int descriptor, const std::string& choice);

// For stderr as it is; nothing with --quiet. What is on the terminal's line is gone when it is
// destroyed.
std::unique_ptr<base::Progress> progress_display();

}  // namespace ttrace::app
