// One dataset of an untrusted file: checked when it is opened, and read by the fastest way that its
// storage allows.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tensor/box.h"
#include "trace/hdf5/direct/chunked_range.h"
#include "trace/hdf5/library/checked_driver.h"
#include "trace/hdf5/library/library.h"
#include "trace/range/raw_range.h"
#include "trace/source.h"

namespace ttrace::trace::hdf5 {

// Selects `box` in the file's dataspace `space` and returns the dataspace of a dense buffer of its
// shape. Hold a LibraryLock.
Handle select_box(hid_t space, const tensor::Box& box);

// Refuses storage outside the file and filters that are not built in.
void require_plain_storage(hid_t creation, const std::string& what);

class StoredDataset : public Dataset {
 public:
  // `object` is the open dataset, `opened` the file below the library, if that is known; throws an
  // input error if the format does not allow it.
  StoredDataset(std::string file, const std::string& path, Handle object,
                const std::optional<OpenFile>& opened);

  const DatasetFacts& facts() const override { return facts_; }
  void read(const tensor::Box& box, std::span<std::byte> out) const override;
  // Where in the file the elements lie as they are, or nothing if they do not.
  std::optional<std::uint64_t> offset() const {
    return raw_ ? std::optional(raw_->offset) : std::nullopt;
  }

 private:
  bool find_raw_range();
  void read_by_library(const tensor::Box& box, std::span<std::byte> out) const;

  std::string file_;
  std::string what_;  // file and path, for messages
  Handle object_;
  Handle type_;
  DatasetFacts facts_;
  std::optional<OpenFile> opened_;
  std::optional<range::RawRange> raw_;  // where the elements lie in the file as they are
  std::unique_ptr<ChunkedRange> chunked_;
};

}  // namespace ttrace::trace::hdf5
