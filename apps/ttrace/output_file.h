// A text file that a command writes at its end but must be able to write from its beginning.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/new_file.h"

namespace ttrace::app {

class OutputFile {
 public:
  // Creates the file (base/new_file.h), so that a typing error in a path costs seconds and not
  // hours; a regular file that stands there is replaced only by store(). An empty path is no file,
  // "-" standard output. Throws an input error if it cannot be written, or is no regular file.
  explicit OutputFile(const std::string& path);

  // Whether there is a file: what nobody asked for need not be made.
  bool wanted() const { return file_ || to_stdout_; }
  // Writes and puts the file in place; throws an input error if the disk does not take it.
  void store(std::string_view text);

 private:
  std::string path_;
  std::optional<base::NewFile> file_;
  bool to_stdout_;
};

// Whether `path` says that the output goes to standard output.
inline bool is_stdout(const std::string& path) { return path == "-"; }

// Throws a usage error if `output` is the trace `input`, or one of the files in its directory that
// it consists of: what is read must not be replaced by what is made of it.
void require_not_of_trace(const std::string& output, const std::string& input);

}  // namespace ttrace::app
