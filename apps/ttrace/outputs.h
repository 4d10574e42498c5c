// Files and folders that a command writes. They appear under their name only when they are
// complete.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/files.h"

namespace ttrace::app {

class OutputFile {
 public:
  // Creates the file (base/files.h), so that a typing error in a path costs seconds and not
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

// Throws an input error if something stands at `path` already: nothing is replaced.
void require_absent(const std::string& path);

// Throws an input error if the disk of the file or folder to be made has no room for `bytes`.
void require_room(const std::string& path, std::uint64_t bytes);

class NewFolder {
 public:
  // Creates a folder beside `path`, which must be absent; throws an input error if it cannot.
  explicit NewFolder(const std::string& path);
  // Where `name` lies until put_in_place(); without that, all is removed.
  std::string file(const std::string& name) const;
  // The message with the name that the user gave in the place of the one until then.
  base::Error named(const base::Error& error) const;
  // Throws an input error if it cannot be renamed.
  void put_in_place();

 private:
  base::UnfinishedOutput output_;
};

}  // namespace ttrace::app
