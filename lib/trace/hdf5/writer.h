// Writes traces on disk.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/files.h"
#include "trace/sink.h"

namespace ttrace::trace::hdf5 {

// A sink for `path`, written beside it and renamed into place by finish() (base/files.h), which
// first reads all elements back and holds their checksums against those of what was written. With
// `rank`, the file is marked as that rank's. Throws an output error if the file cannot be created,
// and an input error if it must not be.
std::unique_ptr<Sink> create_file(const std::string& path, base::Existing existing,
                                  std::optional<std::uint64_t> rank = std::nullopt);

}  // namespace ttrace::trace::hdf5
