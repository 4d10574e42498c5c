// One HDF5 file that is not trusted: opened read-only, and its links, storage and types are checked
// before anything is read through them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "trace/hdf5/library/checked_driver.h"
#include "trace/hdf5/library/library.h"
#include "trace/hdf5/library/stored_dataset.h"
#include "trace/range/range_file.h"
#include "trace/source.h"

namespace ttrace::trace::hdf5 {

// A table of ranges, and where in the file it stands.
struct PlacedTable {
  std::string text;
  std::uint64_t at = 0;
};

class File {
 public:
  // `grows`: whether its job may still add steps to it. Throws an input error if `path` is absent,
  // not a regular file, truncated or not HDF5.
  static std::shared_ptr<const File> open(const std::string& path, bool grows = false);

  const std::string& path() const { return path_; }
  // The file below the library, if that is known.
  const std::optional<OpenFile>& opened() const { return opened_; }

  // Throws an input error naming file and dataset: absent, reached through a link, stored elsewhere
  // or virtual, compressed by a filter that is not built in, of an element type the format lacks.
  std::unique_ptr<Dataset> open_dataset(const std::string& dataset) const;

  // As open_dataset(), but without the table of ranges.
  std::unique_ptr<StoredDataset> open_by_library(const std::string& dataset) const;

  bool has(const std::string& dataset) const;

  // The scalar string dataset `dataset` (fixed or variable length).
  std::string read_string(const std::string& dataset) const;

  // The file's table of ranges, unchecked; nothing if it has none. Throws an input error, without
  // the file's name, if something else stands in its place.
  std::optional<PlacedTable> ranges_table() const;
  // Reads the file's tensors by that table, without the library; may outlive this object. Null if
  // the file has no table or has changed since it was made; the process warns of the first such
  // file. The caller must not hold a LibraryLock.
  std::shared_ptr<const range::RangeFile> ranges() const;

  // An attribute of the root group, or nothing if it is absent.
  std::optional<std::uint64_t> root_number(const std::string& name) const;
  std::optional<std::string> root_text(const std::string& name) const;

 private:
  // Throws an input error if the attribute is not `expected`.
  template <typename Value>
  std::optional<Value> root_attribute(const std::string& name, const char* expected) const;

  File(std::string path, Handle file, bool grows);

  Handle open_object(const std::string& dataset) const;
  std::string string_in(const Handle& object, const std::string& what) const;
  const Handle& group_of(const std::string& dataset) const;

  std::string path_;
  Handle file_;
  std::optional<OpenFile> opened_;
  mutable std::once_flag looked_for_ranges_;
  mutable std::shared_ptr<const range::RangeFile> ranges_;  // or null
  mutable int failed_read_ = 0;  // errno of a read that has failed, or 0; under the lock
  mutable std::map<std::string, Handle>
      groups_;  // open, reached through hard links; under the lock
};

}  // namespace ttrace::trace::hdf5
