// The page of `man ttrace`.
#pragma once

#include <string>

#include "manual/description.h"

namespace ttrace::app {

// In roff, with the macros of man(7).
std::string man_page(const DescribedCommand& program);

}  // namespace ttrace::app
