// One HDF5 file that is not trusted: opened read-only, and its links, storage and types are checked
// before anything is read through them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "trace/hdf5/direct/direct_file.h"
#include "trace/hdf5/library/checked_driver.h"
#include "trace/hdf5/library/library.h"
#include "trace/source.h"

namespace ttrace::trace::hdf5 {

class File {
 public:
  // Throws an input error if `path` is absent, not a regular file, truncated or not HDF5.
  static std::shared_ptr<const File> open(const std::string& path);

  const std::string& path() const { return path_; }

  // Throws an input error naming file and dataset: absent, reached through a link, stored elsewhere
  // or virtual, compressed by a filter that is not built in, of an element type the format lacks.
  std::unique_ptr<Dataset> open_dataset(const std::string& dataset) const;

  bool has(const std::string& dataset) const;

  // The scalar string dataset `dataset` (fixed or variable length).
  std::string read_string(const std::string& dataset) const;

  // The same file without the library, which outlives this; or null.
  std::shared_ptr<const DirectFile> direct() const { return direct_; }

  // A whole-number attribute of the root group, or nothing if it is absent.
  std::optional<std::uint64_t> root_attribute(const std::string& name) const;

 private:
  File(std::string path, Handle file);

  Handle open_object(const std::string& dataset) const;
  std::string string_in(const Handle& object, const std::string& what) const;
  std::unique_ptr<Dataset> open_past_library(const std::string& dataset) const;
  const Handle& group_of(const std::string& dataset) const;

  std::string path_;
  Handle file_;
  std::optional<OpenFile> opened_;
  std::shared_ptr<DirectFile> direct_;  // or null
  mutable int failed_read_ = 0;         // errno of a read that has failed, or 0; under the lock
  mutable std::map<std::string, Handle>
      groups_;  // open, reached through hard links; under the lock
};

// Finds where the members of a group lie, all at once and in the order of the file: looking each up
// by its name takes ten times as long. Nothing if the group has more than `most` members, or cannot
// be listed. Hold a LibraryLock.
std::optional<GroupListing> list_group(hid_t group, std::size_t most);

// Where the hard link `info` leads to, in a file that `object` is in. Hold a LibraryLock.
haddr_t header_address(hid_t object, const H5L_info_t& info);

}  // namespace ttrace::trace::hdf5
