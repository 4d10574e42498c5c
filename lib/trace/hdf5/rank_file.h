// Opens the file of one rank in a folder of many.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trace/hdf5/library/file.h"

namespace ttrace::trace::hdf5 {

// Throws as File::open, and if the file says that another rank wrote it.
std::shared_ptr<const File> open_rank_file(const std::string& path, std::uint64_t rank);

}  // namespace ttrace::trace::hdf5
