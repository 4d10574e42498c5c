// The terminal: its width and colours, and the progress line on stderr.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/log.h"

namespace ttrace::app {

// The number of columns to fold text to: $COLUMNS if set, else the width of the terminal; 0, which
// folds nothing, if it is no terminal.
std::size_t text_width(int descriptor);

// Whether to use colour. `choice` is "always", "never" or "auto", which means on a terminal,
// unless $NO_COLOR is set or $TERM is "dumb"; anywhere, if $CLICOLOR_FORCE is.
bool wants_colour(int descriptor, const std::string& choice);

// Shows progress on stderr: a live line on a terminal, which the destructor clears, or one line
// every ten seconds in a log. Returns null under --quiet.
std::unique_ptr<base::Progress> progress_display();

}  // namespace ttrace::app
