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
// larger ones 2,048 blocks of 4 KiB, shared by the files: the first and the last of each, and one
// at a place that is not regular from each of as many even sections. So files that differ in a
// share s of their bytes, and in neither size nor manifest, are taken for equal with a chance of
// about (1 - s) to the power of 2,048: 1e-9 for a hundredth, 13 % for a thousandth.
Fingerprint fingerprint_of(const std::vector<std::string>& files, std::uint64_t manifest);

}  // namespace ttrace::trace
