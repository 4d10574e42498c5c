// Notes which file HDF5 is reading, where another process can see it.
//
// The library can crash on a damaged file (1.10.8: in the attributes of an object, for one), and
// nothing in the same process can be trusted after that. So the command runs in a child process
// (apps/ttrace/supervise). When the child dies, its parent finds the file here, declares it
// damaged, and starts a new child that leaves it out.
#pragma once

#include <string>

namespace ttrace::trace::hdf5 {

// Lets processes forked from now on share one note with this one. Without it notes go nowhere.
void share_reading_note();

// The file noted by whichever process noted last, or "" if it was done with it.
std::string noted_file();

// File::open refuses a declared file, in this process and those forked from it later.
void declare_damaged(const std::string& file);
bool is_declared_damaged(const std::string& file);

// Notes `file` while it lives. Hold a LibraryLock around it.
class ReadingNote {
 public:
  explicit ReadingNote(const std::string& file);
  ~ReadingNote();
  ReadingNote(const ReadingNote&) = delete;
  ReadingNote& operator=(const ReadingNote&) = delete;
};

}  // namespace ttrace::trace::hdf5
