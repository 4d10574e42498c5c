// How far a long comparison is, on stderr: a line that changes on a terminal, else a line every ten
// seconds.
#pragma once

#include <memory>

#include "base/progress.h"

namespace ttrace::app {

// For stderr as it is; nothing with --quiet. What is on the terminal's line is gone when it is
// destroyed.
std::unique_ptr<base::Progress> progress_display();

}  // namespace ttrace::app
