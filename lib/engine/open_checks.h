// What must hold of a trace before its tensors are looked at.
#pragma once

#include <string>
#include <vector>

#include "trace/source.h"

namespace ttrace::engine {

// Throws an input error naming the first contradiction in the manifest's layouts and how many there
// are.
void require_sound_layouts(const trace::Source& source);

// One sentence for every rank whose file cannot be read.
std::vector<std::string> unreadable_ranks(const trace::Source& source);

}  // namespace ttrace::engine
