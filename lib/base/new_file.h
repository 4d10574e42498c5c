// Output files, which appear under their name only when they are whole.
//
// Until then they lie beside their place under a name that nobody can foresee: in a folder to which
// others may write (/tmp), a foreseen one could have been made a link to another file by then. They
// are made exclusively, follow no link, and replace nothing but regular files: not a device, not a
// pipe, not what a link leads to.
#pragma once

#include <string>
#include <string_view>

namespace ttrace::base {

enum class Existing {
  kReplaced,  // if it is a regular file; an input error else
  kKept,      // an input error
};

// Throws an input error naming `path` if something stands there that is not to be replaced.
void require_free_place(const std::string& path, Existing existing);

// A name beside `path`, for a file or folder that is made there.
class UnfinishedOutput {
 public:
  // Makes nothing. Throws as require_free_place().
  UnfinishedOutput(std::string path, Existing existing);
  // Without put_in_place(), removes what is there, a folder with all that is in it.
  ~UnfinishedOutput();
  UnfinishedOutput(const UnfinishedOutput&) = delete;
  UnfinishedOutput& operator=(const UnfinishedOutput&) = delete;

  const std::string& path() const { return path_; }
  const std::string& unfinished_path() const { return unfinished_; }
  // Renames. Throws an input error if that fails, or if something that is not to be replaced has
  // come to stand there since.
  void put_in_place();

 private:
  std::string path_;
  Existing existing_;
  std::string unfinished_;  // empty: it is in place
  int note_ = -1;           // its place in the shared list, below
};

// A text file.
class NewFile {
 public:
  // Creates the file, empty. Throws an input error if it cannot be, or must not.
  NewFile(std::string path, Existing existing);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  // Writes all of `text` and puts the file in place; throws an input error if the disk does not
  // take it.
  void store(std::string_view text);

 private:
  UnfinishedOutput output_;
  int descriptor_ = -1;
};

// Writes all of `text` to a descriptor; the errno if that fails, else 0.
int write_all(int descriptor, std::string_view text);

// A process that is ended by a signal or by a crash removes nothing. From this call on, processes
// that this one forks list their unfinished outputs in memory that it shares with them ...
void share_unfinished_outputs();
// ... and this removes those of one that has ended.
void remove_unfinished_outputs();

}  // namespace ttrace::base
