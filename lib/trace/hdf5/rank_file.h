// The file of one rank in a directory of many.
#pragma once

#include <memory>
#include <string>

#include "trace/hdf5/file.h"
#include "trace/hdf5/rank_file_name.h"

namespace ttrace::trace::hdf5 {

// Throws as File::open, and if the file says that another rank wrote it.
std::shared_ptr<const File> open_rank_file(const std::string& path, std::uint64_t rank);

}  // namespace ttrace::trace::hdf5
