// Reads contiguous datasets without calling HDF5: their headers, and then their elements.
//
// Opening a dataset through the library takes 20 µs behind the one lock of all files and threads,
// most of it for property lists that a trace has no use for: a hundred thousand small tensors were
// slower to open than to compare. Only the simplest header is understood (object header version 1
// of https://docs.hdfgroup.org/hdf5/v1_14/_f_m_t3.html, IV.A.1.a; one contiguous range, no filters,
// nothing shared or external). The library reads everything else and refuses what is damaged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trace/hdf5/library/checked_driver.h"
#include "trace/source.h"

namespace ttrace::trace::hdf5 {

struct DatasetHeader {
  DatasetFacts facts;
  std::uint64_t offset = 0;  // of the elements, in row-major order
  std::uint64_t bytes = 0;   // above 0; they lie within the file
};

// Returns the header at `address` of a file without a user block and with 8-byte addresses and
// sizes; nothing if it is not of that simplest kind. Throws an input error naming `what` if the
// file cannot be read any more. Hold no LibraryLock: element types are set up under it when this is
// first called.
std::optional<DatasetHeader> read_dataset_header(const OpenFile& file, std::uint64_t address,
                                                 const std::string& what);

// Where the members of a group lie, those that are hard links: soft and external ones are not in
// it. A run of thousands of ranks has millions, so names are not kept: 16 to 18 bytes each.
class GroupListing {
 public:
  void reserve(std::size_t members) { members_.reserve(members); }
  // All members, then settle() once, then address_of().
  void add(std::string_view name, haddr_t address);
  void settle();

  // The address of the member's object header; HADDR_UNDEF if there is no such hard link, or if
  // two names have the same hash.
  haddr_t address_of(std::string_view name) const;
  std::size_t size() const { return members_.size(); }

 private:
  std::size_t bucket_of(std::uint64_t hash) const { return hash >> 1 >> (63 - bucket_bits_); }

  std::vector<std::pair<std::uint64_t, haddr_t>> members_;  // by the hash of the name
  // Where the hashes begin that have the same first bits. A binary search of a million members
  // would wait for memory twenty times.
  std::vector<std::uint32_t> buckets_;
  unsigned bucket_bits_ = 0;
};

// An open file without the library: a descriptor, and where the headers of its datasets lie, as far
// as its groups were listed.
//
// HDF5 keeps half a MiB for every open file, and takes a third of a millisecond to open one: a run
// of thousands of ranks can neither keep all of its files open nor open them anew for each tensor.
// This takes a descriptor and 16 bytes a dataset.
//
// Thread-safe. Takes a LibraryLock only when the first dataset is opened: hold none.
class DirectFile : public std::enable_shared_from_this<DirectFile> {
 public:
  // With a descriptor of its own; null if such files have half of the descriptors that the process
  // may have. `opened`: a file whose addresses have 8 bytes and count from its start.
  static std::shared_ptr<DirectFile> of(std::string path, const OpenFile& opened);
  ~DirectFile();
  DirectFile(const DirectFile&) = delete;
  DirectFile& operator=(const DirectFile&) = delete;

  const std::string& path() const { return path_; }

  // Returns null if the dataset's group was not listed, or its header is not of the simplest kind.
  // Throws an input error if the file cannot be read any more.
  std::unique_ptr<Dataset> open(const std::string& dataset) const;
  std::unique_ptr<Dataset> open_at(haddr_t address, const std::string& dataset) const;

  bool has_listing(const std::string& group) const;
  // Keeps the listing, unless those of all files together would take too much memory.
  void add_listing(const std::string& group, GroupListing listing);
  // How many members a group may have to be listed.
  static std::size_t room();

 private:
  DirectFile(std::string path, const OpenFile& opened) : path_(std::move(path)), opened_(opened) {}

  std::string path_;
  OpenFile opened_;
  mutable std::shared_mutex mutex_;
  std::unordered_map<std::string, GroupListing> listings_;
};

}  // namespace ttrace::trace::hdf5
