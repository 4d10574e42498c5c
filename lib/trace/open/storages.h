// The kinds of files that traces lie in.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "trace/rank_file.h"

namespace ttrace::trace {

// All kinds. The first is that of the collector, and of files that none recognises.
std::span<const StorageKind> storages();

// Opens a file by its first bytes. Arguments and errors are those of StorageKind::open.
std::shared_ptr<const RankFile> open_by_content(const std::string& path, bool grows = false);

// The id of the run that the file at `path` says it is of, by its stamp or by the manifest inside;
// empty if it says none. Throws an input error if the two name two runs.
std::string run_of(const RankFile& file, const std::string& path);

// Throws an input error if the file of `rank` at `path`, which says that it is of the run `said`,
// is not of the run `expected` (RunFit::kOther).
void require_run(const std::string& path, std::uint64_t rank, const std::string& said,
                 const std::string& expected);

// Opens a rank's file by the suffix of its name. Throws as StorageKind::open, and if the file says
// that another rank wrote it.
std::shared_ptr<const RankFile> open_rank_file(const std::string& path, std::uint64_t rank,
                                               bool grows = false);

}  // namespace ttrace::trace
