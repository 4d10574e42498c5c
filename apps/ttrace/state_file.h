// The file given as --resume: what is finished of a comparison, line by line. schemas/state-v2.md.
#pragma once

#include <string>

#include "comparison/checkpoint.h"
#include "comparison/division.h"

namespace ttrace::app {

class StateFile {
 public:
  // Opens the file, or makes a new one. Throws an input error if it is of another comparison, no
  // state at all, in use by another process, or cannot be written.
  StateFile(std::string path, const comparison::ComparisonId& id);
  ~StateFile();
  StateFile(const StateFile&) = delete;
  StateFile& operator=(const StateFile&) = delete;

  // Tells `work` what is in the file, but for what could not be read: that is tried again. What a
  // killed process wrote of its last line is cut off. Throws an input error on a damaged line.
  void load(comparison::FinishedWork& work);

  // Not thread-safe. Written at once: a killed process loses nothing that it had finished. If the
  // disk does not take it, a warning says so, once, and nothing is written any more.
  void append(const std::string& line);

 private:
  void open_and_lock();
  void write_header(const std::string& header);
  void write(std::string_view text);

  std::string path_;
  int file_ = -1;
  bool failed_ = false;
  std::string lines_;  // whole ones, from the file after its header
};

}  // namespace ttrace::app
