// What tells the files of a trace from those of others, wherever they lie.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/source.h"

namespace ttrace::trace {

// `files`: those of all ranks, in the order of the ranks; one that is absent counts as empty. If
// one cannot be read, the content is not known (""): a guess would be taken for another trace.
// `manifest`: the checksum of its text. The sample is all bytes of files of 8 MiB together, and of
// larger ones blocks of 4 KiB at even distances, with the first and the last.
Fingerprint fingerprint_of(const std::vector<std::string>& files, std::uint64_t manifest);

}  // namespace ttrace::trace
