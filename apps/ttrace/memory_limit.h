// How much memory the work may take.
#pragma once

#include <string>

namespace ttrace::app {

// A quarter of the machine's memory, at most 2 GiB.
void limit_memory_by_default();

// `size` as the user wrote it. Throws a usage error if it is no size or too small to work with.
void limit_memory(const std::string& size);

}  // namespace ttrace::app
