// The parts of a manifest that rank files embed, for a run whose manifest.json was never written.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/manifest.h"

namespace ttrace::trace::hdf5 {

// Ranks that have a file in the directory, ascending. Files that are not named as rank files are
// none. Throws an input error if the directory cannot be read.
std::vector<std::uint64_t> ranks_with_files(const std::string& directory);

// Throws an input error naming the file if it cannot be read, was written by another rank or
// embeds no manifest that parses.
Manifest read_rank_part(const std::string& directory, std::uint64_t rank);

}  // namespace ttrace::trace::hdf5
