// Reads chunked datasets without HDF5's one lock: locates chunks (through the library), inflates
// and unshuffles them, and keeps the last ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "tensor/box.h"
#include "trace/hdf5/library/checked_driver.h"
#include "trace/hdf5/library/library.h"
#include "trace/source.h"

namespace ttrace::trace::hdf5 {

// Inflates a zlib stream, as HDF5's deflate filter writes it. Returns whether `stored` is one whole
// stream of exactly out.size() bytes; more are never written, whatever the stream says.
// Thread-safe.
bool inflate_exactly(std::span<const std::byte> stored, std::span<std::byte> out);

// "libdeflate" or "zlib", which is about half as fast.
const char* inflate_library();

// Undoes HDF5's shuffle filter. `shuffled` has the first bytes of all elements, then the second
// bytes, and so on; `out`, of the same size and apart from it, gets them element by element. A rest
// that is no whole element is copied, as HDF5 does.
void unshuffle(std::span<const std::byte> shuffled, std::size_t element_bytes,
               std::span<std::byte> out);

class ChunkedRange {
 public:
  // Nothing where the library has to read: another layout, other filters than shuffle before
  // deflate, a file with a user block (HDF5 1.10 does not count it in addresses of chunks).
  // `object` is the open dataset, of `file`, which is `opened`, and must outlive the range. Hold a
  // LibraryLock.
  static std::unique_ptr<ChunkedRange> of(hid_t object, hid_t creation, const DatasetFacts& facts,
                                          std::string file, const OpenFile& opened);

  // Bits of `box`. Thread-safe. Chunks of the last reads are kept, as the next box often needs
  // them too: up to kKeptBytes, less where all ranges together would keep more than they may, and
  // one in any case. Throws an input error naming `what`: a chunk that is absent, reaches beyond
  // the file, does not inflate to exactly its size, or alone needs more memory than all may keep.
  void read_box(const tensor::Box& box, std::span<std::byte> out, const std::string& what);

  ~ChunkedRange();
  ChunkedRange(const ChunkedRange&) = delete;
  ChunkedRange& operator=(const ChunkedRange&) = delete;

  static constexpr std::uint64_t kKeptBytes = std::uint64_t{64} << 20;
  // A damaged file may declare chunks of 4 GiB; so much memory is not taken for them.
  static constexpr std::uint64_t kLargestChunk = std::uint64_t{1} << 30;

 private:
  struct Stored {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    unsigned skipped_filters = 0;  // bit i: filter i was not applied
  };
  struct Kept {
    std::uint64_t number = 0;
    std::vector<std::byte> values;
  };

  ChunkedRange() = default;
  Stored locate(const tensor::Shape& origin, const std::string& what) const;
  void load(const tensor::Shape& origin, std::vector<std::byte>& values, const std::string& what);
  const std::vector<std::byte>& chunk(std::uint64_t number, const tensor::Shape& origin,
                                      const std::string& what);

  hid_t object_ = -1;
  std::string file_;
  int descriptor_ = -1;
  std::uint64_t file_end_ = 0;
  tensor::Shape shape_;
  tensor::Shape extent_;  // of a chunk
  std::size_t element_bytes_ = 0;
  std::uint64_t chunk_bytes_ = 0;
  int shuffle_ = -1;  // number of the filter, or -1
  int deflate_ = -1;

  std::mutex mutex_;
  std::list<Kept> kept_;  // the last used first
  std::map<std::uint64_t, std::list<Kept>::iterator> found_;
  std::vector<std::byte> stored_;
  std::vector<std::byte> inflated_;
};

}  // namespace ttrace::trace::hdf5
