// HDF5 as a storage of traces. Other rooms use this header and writer.h of this folder.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "trace/rank_file.h"

namespace ttrace::trace::hdf5 {

// Files of HDF5 as files of a trace.
StorageKind storage();

// Returns "1.10.8", with the version of the headers if the program was built with another one.
std::string library_version();

// Returns "rank_00003.h5", the name of a rank's file in a run's folder.
std::string rank_file_name(std::uint64_t rank);

// The memory that all open datasets together may keep of their inflated chunks. A run with many
// replicas has many datasets open at the same time.
struct ChunkMemory {
  std::atomic<std::uint64_t> most{std::uint64_t{1} << 30};
  std::atomic<std::uint64_t> kept{0};
};

// The process's own.
ChunkMemory& chunk_memory();

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
