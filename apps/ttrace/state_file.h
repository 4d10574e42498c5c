// The file of --resume.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "comparison/checkpoint/checkpoint.h"
#include "comparison/division.h"

namespace ttrace::app {

// The file given as --resume: the finished work of a comparison or an audit, one line per
// tensor. Format:
// schemas/state-v2.md.
class StateFile {
 public:
  // Opens or creates the file. Throws an input error if it belongs to other work, is no
  // state file, is in use by another process, or cannot be written.
  StateFile(std::string path, const comparison::ComparisonId& id);
  ~StateFile();
  StateFile(const StateFile&) = delete;
  StateFile& operator=(const StateFile&) = delete;

  // Restores finished work from the file, except tensors that could not be read, which are tried
  // again. An incomplete last line, left by a killed process, has been cut off. Throws an input
  // error on a damaged line.
  void load(comparison::Checkpoint& work);

  // Writes a line at once, so that a killed process loses no finished work. If writing fails twice,
  // warns once and stops writing. Not thread-safe.
  void append(const std::string& line);

  // Syncs and closes the file. Warns if that fails.
  void close();

 private:
  void open_and_lock();
  void write_header(const std::string& header);
  // At most a MiB of the file from `at` on, before `end`; empty where it ends.
  std::string read_at(off_t at, off_t end) const;
  void write(std::string_view text);
  void give_up(int error);

  std::string path_;
  int file_ = -1;
  off_t lines_at_ = 0;  // where the lines behind the header begin
  off_t whole_ = 0;     // bytes of the file that are complete lines
  bool failed_ = false;
};

}  // namespace ttrace::app
