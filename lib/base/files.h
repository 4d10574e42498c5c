// Reads text files whole, and writes output files, which appear under their name only when they are
// complete.
//
// An unfinished output has a random name beside its final one: in a directory that others may write
// to (/tmp), they could turn a predictable name into a link to another file. Outputs are created
// exclusively, follow no links, and replace regular files only, never a device, a pipe or the
// target of a link.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ttrace::base {

// The largest text file that is read. A manifest of a hundred thousand tensors over four thousand
// ranks has a tenth of that; a larger file is a mistake or an attack (a sparse file of terabytes).
inline constexpr std::uint64_t kLargestText = std::uint64_t{1} << 30;

// Returns the whole file. Throws an input error naming it if it is no regular file, larger than
// kLargestText, empty, or cannot be read.
std::string read_text(const std::string& path);

enum class Existing {
  kReplaced,  // a regular file is replaced; anything else is an input error
  kKept,      // an existing file is an input error
};

// Throws an input error naming `path` if something exists there that must not be replaced.
void require_free_place(const std::string& path, Existing existing);

// A temporary name beside `path` for a file or folder that is being written.
class UnfinishedOutput {
 public:
  // Creates nothing. Throws as require_free_place() does.
  UnfinishedOutput(std::string path, Existing existing);
  // Removes the file, or the folder with its contents, unless put_in_place() was called.
  ~UnfinishedOutput();
  UnfinishedOutput(const UnfinishedOutput&) = delete;
  UnfinishedOutput& operator=(const UnfinishedOutput&) = delete;

  const std::string& path() const { return path_; }
  const std::string& unfinished_path() const { return unfinished_; }
  // Syncs it to the disk and renames it to path(). Throws an output error if that fails, and an
  // input error if something that must not be replaced has appeared there in the meantime.
  void put_in_place();

 private:
  void rename_to_place();

  std::string path_;
  Existing existing_;
  std::string unfinished_;  // empty once it is in place
  int note_ = -1;           // its index in the shared list, see share_unfinished_outputs()
};

// A text file that is being written.
class NewFile {
 public:
  // Creates an empty file. Throws an output error if it cannot, an input error if it must not.
  NewFile(std::string path, Existing existing);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  // Writes all of `text` and puts the file in place. Throws an output error if that fails.
  void store(std::string_view text);

 private:
  UnfinishedOutput output_;
  int descriptor_ = -1;
};

// Writes all of `text` to a descriptor. Returns 0, or the errno.
int write_all(int descriptor, std::string_view text);

// A process that is ended by a signal or a crash cannot remove its unfinished outputs. After this
// call, processes forked from this one list theirs in shared memory.
void share_unfinished_outputs();
// Removes the outputs that an ended child process left unfinished.
void remove_unfinished_outputs();

}  // namespace ttrace::base
