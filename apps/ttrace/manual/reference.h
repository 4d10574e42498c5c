// REFERENCE.md: every flag of every command.
#pragma once

#include <string>

#include "manual/description.h"

namespace ttrace::app {

// In Markdown.
std::string reference(const DescribedCommand& program);

}  // namespace ttrace::app
