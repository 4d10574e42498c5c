// What the system refused, in words that name the way out.
#pragma once

#include <string>

namespace ttrace::base {

// The reason of a failed open or read, and of a failed open, write or rename, by its errno:
// "permission denied: this user may not read it". No way out is known for most: the system's words.
std::string reading_problem(int error);
std::string writing_problem(int error);

// For a process that got no memory.
std::string out_of_memory_words();

}  // namespace ttrace::base
