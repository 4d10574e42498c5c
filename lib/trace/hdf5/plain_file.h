// What of a file can be read without the library: its bytes, and where the headers of its datasets
// lie, as far as groups were listed.
//
// HDF5 keeps half a MiB for every open file, and takes a third of a millisecond to open one: a run
// of thousands of ranks can neither keep all of its files open nor open them anew for each tensor.
// This is a descriptor and 16 bytes a dataset.
#pragma once

#include <memory>
#include <shared_mutex>
#include <string>
#include <unordered_map>

#include "trace/hdf5/checked_driver.h"
#include "trace/hdf5/group_listing.h"
#include "trace/source.h"

namespace ttrace::trace::hdf5 {

// Thread-safe. Takes no LibraryLock but when the first dataset is opened: hold none.
class PlainFile : public std::enable_shared_from_this<PlainFile> {
 public:
  // With a descriptor of its own; null if half of those that the process may have are taken by such
  // files. `opened`: a file whose
  // addresses have 8 bytes and count from its start.
  static std::shared_ptr<PlainFile> of(std::string path, const OpenFile& opened);
  ~PlainFile();
  PlainFile(const PlainFile&) = delete;
  PlainFile& operator=(const PlainFile&) = delete;

  const std::string& path() const { return path_; }

  // The dataset, or null: its group was not listed, or the header is not of the plain kind. Throws
  // an input error if the file cannot be read any more.
  std::unique_ptr<Dataset> open(const std::string& dataset) const;
  std::unique_ptr<Dataset> open_at(haddr_t address, const std::string& dataset) const;

  bool has_listing(const std::string& group) const;
  // Of all files together, listings take bounded memory: `listing` may be let go.
  void add_listing(const std::string& group, GroupListing listing);
  // How many members a group may have to be listed.
  static std::size_t room();

 private:
  PlainFile(std::string path, const OpenFile& opened) : path_(std::move(path)), opened_(opened) {}

  std::string path_;
  OpenFile opened_;
  mutable std::shared_mutex mutex_;
  std::unordered_map<std::string, GroupListing> listings_;
};

}  // namespace ttrace::trace::hdf5
