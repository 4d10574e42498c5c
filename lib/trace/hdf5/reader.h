// Opens a trace on disk in either form.
#pragma once

#include <memory>
#include <string>

#include "trace/source.h"

namespace ttrace::trace::hdf5 {

// `path` is a directory with manifest.json and rank files, or one HDF5 file with /manifest. Throws
// an input error if there is no readable manifest. Rank files are opened when first needed; one
// that cannot be read is told by rank_problem(), not thrown.
std::unique_ptr<Source> open_trace(const std::string& path);

}  // namespace ttrace::trace::hdf5
