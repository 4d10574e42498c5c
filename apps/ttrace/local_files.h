// Traces whose rank files lie on the disks of several machines (--local-files).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "comparison/division.h"
#include "trace/source.h"

namespace ttrace::app {

struct LocalFiles {
  bool given = false;  // --local-files
  // In a merge with all its parts: the rank files that at least one part has. Nothing otherwise:
  // then a file that is absent here may lie on another machine.
  std::optional<std::set<std::string>> had = std::nullopt;
};

// Adds the rank files of a trace that are here, each with its size and a checksum of a sample.
// Copies on two machines have the same text.
void add_files_here(const trace::Source& source, std::map<std::string, std::string>& files);

// Opens a trace and logs it. Ranks whose files may lie elsewhere are then not lost.
std::unique_ptr<trace::Source> open_local(const std::string& path, const LocalFiles& local);

// Adds what is the same on every machine: the checksum of the manifest.
void add_manifest(const trace::Source& source, comparison::ComparisonId& id);

}  // namespace ttrace::app
