// Opens traces on disk, in either form. Other rooms use this header and writer.h of this folder.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "trace/sink.h"
#include "trace/source.h"

namespace ttrace::trace::hdf5 {

// `path` is a directory with manifest.json and rank files, or one HDF5 file with /manifest. Throws
// an input error if there is no readable manifest. Rank files are opened when first needed; one
// that cannot be read is reported by rank_problem(), not thrown.
std::unique_ptr<Source> open_trace(const std::string& path);

// The same with the manifest at hand, of a trace that has none of its own yet: its job still runs.
std::unique_ptr<Source> open_trace(const std::string& path, Manifest manifest);

// Returns "1.10.8", with the version of the headers if the program was built with another one.
std::string library_version();

// Returns "rank_00003.h5", the name of a rank's file in a run's folder.
std::string rank_file_name(std::uint64_t rank);

// What is wrong with the table of ranges of a trace's file (trace/range/range_table.h).
struct RangeCheck {
  std::vector<std::string> findings;  // entries that HDF5 contradicts
  std::string warning;                // why the table is not used, or empty
};

// Holds every entry against the library. Nothing is wrong with a file without a table. Throws as
// open_trace() if the file cannot be opened.
RangeCheck check_ranges(const std::string& file);

// The memory that all open datasets together may keep of their inflated chunks. A run with many
// replicas has many datasets open at the same time.
struct ChunkMemory {
  std::atomic<std::uint64_t> most{std::uint64_t{1} << 30};
  std::atomic<std::uint64_t> kept{0};
};

// The process's own.
ChunkMemory& chunk_memory();

// The manifests that rank files embed, for a run whose manifest.json was never written.

// Ranks that have a file in the directory, ascending. Files that are not named as rank files are
// none. Throws an input error if the directory cannot be read.
std::vector<std::uint64_t> ranks_with_files(const std::string& directory);

// Throws an input error naming the file if it cannot be read, was written by another rank or
// embeds no manifest that parses.
Manifest read_rank_manifest(const std::string& directory, std::uint64_t rank);

// HDF5 can crash on a damaged file (1.10.8: in the attributes of an object, for one), and nothing
// in the same process can be trusted after that. So the command runs in a child process
// (apps/ttrace/process.cpp) that notes which file it reads. When the child dies, its parent
// declares the noted file damaged, and starts a new child that leaves it out.

// Lets processes forked from now on share one note with this one. Without it notes go nowhere.
void share_reading_note();

// The file noted by whichever process noted last, or "" if it was done with it.
std::string noted_file();

// Makes opening the file an input error, in this process and those forked from it later.
void declare_damaged(const std::string& file);

}  // namespace ttrace::trace::hdf5
