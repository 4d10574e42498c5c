// Opens the tensors of a file by its table of ranges, and reads their bytes where they lie.
//
// HDF5 takes 20 µs behind the one lock of all files and threads to open a dataset, and keeps half a
// MiB for every open file, which it opens in a third of a millisecond: a hundred thousand small
// tensors were slower to open than to compare, and a run of thousands of ranks can neither keep all
// of its files open nor open them anew for each tensor. This takes a descriptor and 26 bytes a
// dataset.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "trace/range/open_file.h"
#include "trace/range/range_table.h"
#include "trace/source.h"

namespace ttrace::trace::range {

// Thread-safe.
class RangeFile : public std::enable_shared_from_this<RangeFile> {
 public:
  // With a descriptor of its own. `table` is sound for the file, which is as its table says. Null
  // if the process gets no more descriptors.
  static std::shared_ptr<const RangeFile> of(std::string path, const OpenFile& opened,
                                             RangeTable table);
  ~RangeFile();
  RangeFile(const RangeFile&) = delete;
  RangeFile& operator=(const RangeFile&) = delete;

  const std::string& path() const { return path_; }
  // Whether there is room to keep it when its file is closed: false if such files have half of the
  // descriptors that the process may have, or if the tables of all of them take too much memory.
  bool has_room() const { return has_room_; }
  // Null if the table does not have the dataset.
  std::unique_ptr<Dataset> open(const std::string& dataset) const;

 private:
  RangeFile(std::string path, const OpenFile& opened, RangeTable table);

  std::string path_;
  OpenFile opened_;
  RangeTable table_;
  bool has_room_;
};

}  // namespace ttrace::trace::range
