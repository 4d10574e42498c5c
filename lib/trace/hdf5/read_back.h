// Holds a file that was just written against what was handed in to be written. A file system that
// loses a write for a moment need not say so, and what is lost reads as zeros.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "tensor/box.h"
#include "trace/hdf5/library/file.h"
#include "trace/source.h"

namespace ttrace::trace::hdf5 {

// A checksum of every dataset of a file, of the elements that were written. Several threads may
// call its members.
class WrittenChecksums {
 public:
  // The dataset is there. To be called before add().
  void begin(const std::string& dataset, const DatasetFacts& facts);

  DatasetFacts facts_of(const std::string& dataset) const;

  // Adds the dense, row-major elements of a box. No element may be added twice. The box is kept, in
  // about 100 bytes.
  void add(const std::string& dataset, const tensor::Box& box, std::span<const std::byte> bytes);

  // Reads all elements that were added and compares the checksums, on all cores. Throws an input
  // error if one differs, or a dataset cannot be read.
  void require_in(const File& file) const;

 private:
  struct Written {
    DatasetFacts facts;
    std::vector<tensor::Box> boxes;
    std::uint64_t sum = 0;
  };

  // The checksum of the same boxes as they are stored.
  static std::uint64_t sum_in(const Dataset& stored, const Written& written);

  mutable std::mutex mutex_;
  std::map<std::string, Written> datasets_;
};

}  // namespace ttrace::trace::hdf5
