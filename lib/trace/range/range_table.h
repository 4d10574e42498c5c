// The table of a file's ranges (schemas/ranges-v1.md): where in the file the elements of its
// contiguous tensors lie, and what the file was when its writer had finished it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/source.h"

namespace ttrace::trace::range {

// The most ranges in a table, and the most that all open files together keep in memory.
inline constexpr std::size_t kMostRanges = std::size_t{1} << 21;  // 52 MiB

struct StoredRange {
  DatasetFacts facts;
  std::uint64_t offset = 0;  // of the elements, in row-major order
};

// Bytes [begin, end) of a file.
struct FileExtent {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// The bytes of a table that say what is known only once the file is whole: its size, and the
// checksum of all of its bytes but the ranges and these.
struct Seal {
  static constexpr std::uint64_t kOffset = 16;  // in the table
  static constexpr std::uint64_t kBytes = 16;

  std::uint64_t file_bytes = 0;
  std::uint64_t checksum = 0;

  std::string text() const;
};

// The table of `ranges`, by their datasets' names; its seal is all zeros.
std::string table_text(const std::map<std::string, StoredRange>& ranges);

// Visits all entries of a table, which is not trusted, in its order. Throws an input error without
// the file's name if it is no whole table.
void for_each_range(std::string_view table,
                    const std::function<void(std::string_view name, const StoredRange&)>& visit);

// A table that was read. A run of thousands of ranks has millions of entries, so names are not
// kept: 24 to 26 bytes each.
class RangeTable {
 public:
  // `table` stands at `at` of a file of `file_bytes`. Throws an input error without the file's name
  // if it is no whole table, names a dataset twice, or if a range is not within the file or shares
  // bytes with the file's first header, the table or another range.
  RangeTable(std::string_view table, std::uint64_t at, std::uint64_t file_bytes);

  // For a file of another format, which says in its own way where its tensors lie: add() each, then
  // settle(). Their names must differ, and they must lie within the file and share no byte. Unlike
  // in a table of our own, tensors without elements have a range, too. There is no seal.
  RangeTable() = default;
  void add(std::string_view dataset, const DatasetFacts& facts, std::uint64_t offset);
  void settle();

  const Seal& seal() const { return seal_; }
  std::size_t size() const { return entries_.size(); }
  // Nothing if the table does not have the dataset.
  std::optional<StoredRange> find(std::string_view dataset) const;
  // The parts of the file that the seal's checksum covers, ascending. Moves them out, since they
  // are needed once.
  std::vector<FileExtent> take_outside() { return std::exchange(outside_, {}); }

 private:
  struct Entry {
    std::uint64_t hash = 0;  // of the name
    std::uint64_t offset = 0;
    std::uint32_t facts = 0;
  };

  std::size_t bucket_of(std::uint64_t hash) const { return hash >> 1 >> (63 - bucket_bits_); }

  Seal seal_;
  std::vector<DatasetFacts> facts_;
  std::map<std::string, std::uint32_t> known_facts_;  // until the table is settled
  std::vector<Entry> entries_;                        // by their hashes
  // Where the hashes begin that have the same first bits. A binary search of a million entries
  // would wait for memory twenty times.
  std::vector<std::uint32_t> buckets_;
  unsigned bucket_bits_ = 0;
  std::vector<FileExtent> outside_;
};

}  // namespace ttrace::trace::range
