// Files that are read whole, and output files, which appear under their name only when they are
// complete.
//
// Until then an output lies beside its place under a random name: in a folder to which others may
// write (/tmp), somebody could have made a predictable name a link to another file. Outputs are
// created exclusively, follow no link, and replace regular files only: no device, no pipe, not the
// target of a link.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ttrace::base {

// The largest text that is read: a manifest of a hundred thousand tensors over four thousand ranks
// has a tenth of that, and what is larger is a mistake or an attack (a sparse file of terabytes).
inline constexpr std::uint64_t kLargestText = std::uint64_t{1} << 30;

// The whole file. Throws an input error naming it if it is not a regular file, larger than
// kLargestText, empty, or cannot be read.
std::string read_text(const std::string& path);

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
