// The files and folders that a command writes, which appear under their name only when they are
// complete.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/files.h"

namespace ttrace::app {

// A text file that a command writes at its end but opens at its beginning, so that a typing error
// in its path costs seconds and not hours.
class OutputFile {
 public:
  // Creates the file (base/files.h). store() replaces a regular file that exists at `path`. An
  // empty path means no file, "-" standard output. Throws an input error if the file cannot be
  // written or is not regular.
  explicit OutputFile(const std::string& path);

  // Whether the output was requested.
  bool wanted() const { return file_ || to_stdout_; }
  // Writes the text and puts the file in place. Throws an input error if writing fails.
  void store(std::string_view text);

 private:
  std::string path_;
  std::optional<base::NewFile> file_;
  bool to_stdout_;
};

// A file to whose end a command adds text; others may add to it, too.
class AppendedFile {
 public:
  // Opens the file, or makes it. Throws an input error if it cannot be written, is no regular file,
  // or is a link.
  explicit AppendedFile(const std::string& path);
  ~AppendedFile();
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;
  // Throws an input error if writing fails.
  void append(std::string_view text);

 private:
  std::string path_;
  int descriptor_;
};

// Whether `path` means standard output.
inline bool is_stdout(const std::string& path) { return path == "-"; }

// Throws a usage error if `output` is the trace `input` or one of its files, because a command must
// not replace its own input.
void require_not_of_trace(const std::string& output, const std::string& input);

// A folder that appears under its name only when everything in it is written.
class NewFolder {
 public:
  // Creates a temporary folder beside `path`. Throws an input error if it cannot, or if `path`
  // exists.
  explicit NewFolder(const std::string& path);
  // The path of the file `name` until put_in_place(). The destructor removes the folder otherwise.
  std::string file(const std::string& name) const;
  // `error` with the name that the user gave in place of the temporary one.
  base::Error named(const base::Error& error) const;
  // Renames the folder to its name. Throws an input error if that fails.
  void put_in_place();

 private:
  base::UnfinishedOutput output_;
};

}  // namespace ttrace::app
