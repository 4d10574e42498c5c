// Opens traces on disk, in either form and of any storage (storages.h). Only apps and tests use
// this folder: the other rooms know trace::Source.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trace/rank_file.h"
#include "trace/source.h"

namespace ttrace::trace {

// `path` is a directory with manifest.json and rank files, or one file that embeds its manifest.
// Throws an input error if there is no readable manifest. Rank files are opened when first needed;
// one that cannot be read is reported by rank_problem(), not thrown.
std::unique_ptr<Source> open_trace(const std::string& path);

// Opens a trace with this manifest, because it has none of its own yet: its job still runs. Steps
// that the job adds meanwhile do not disturb reading those that the manifest has.
std::unique_ptr<Source> open_trace(const std::string& path, Manifest manifest);

// Whether a path that may not exist yet has the name of a trace in a single file.
bool names_single_file(const std::string& path);

// Checks where a file says that its tensors lie, if it also says so in another way (a table of
// ranges beside HDF5's own headers). Throws as open_trace() if the file cannot be opened.
RangeCheck check_ranges(const std::string& file);

// Ranks that have a file in the directory, ascending. Files without the name of a rank file are
// ignored. Throws an input error if the directory cannot be read.
std::vector<std::uint64_t> ranks_with_files(const std::string& directory);

// The file of a rank, whether it can be read or not; the name that the collector gives it if there
// is none.
std::string rank_file(const std::string& directory, std::uint64_t rank);

// The manifests that rank files embed, for a run whose manifest.json was never written. Throws an
// input error naming the file if it cannot be read, was written by another rank or embeds no
// manifest that parses.
Manifest read_rank_manifest(const std::string& directory, std::uint64_t rank);

}  // namespace ttrace::trace
