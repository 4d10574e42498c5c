// Reads the shard of one rank: opens it, checks it against the manifest, reads boxes, decodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "layout/local_layout.h"
#include "layout/plan.h"
#include "measure/backend.h"
#include "tensor/box.h"
#include "tensor/dtype.h"
#include "trace/source.h"

namespace ttrace::measure {

// Writes the numbers of `values` to `out`, one per element.
void decode(const StoredValues& values, std::span<double> out);

// Returns the layout of a tensor of an open trace; reads the index tensors that it names. Throws an
// input error if the placements contradict themselves, or if an index cannot be read or names rows
// that do not fit.
layout::Plan resolved_plan(const trace::Source& source, const trace::TensorEntry& entry);

// Reads a box of an array of `shape`. `dataset` holds the array's elements `range`, in row-major
// order; the box must lie within the range. `out`: the stored bits, dense, row-major. Returns the
// number of bytes read. Throws as Dataset::read.
std::uint64_t read_flat_box(const trace::Dataset& dataset, const tensor::Shape& shape,
                            const layout::Range& range, const tensor::Box& box,
                            std::span<std::byte> out);

// Whether a reader closes its dataset between two reads.
enum class Between { kKeepOpen, kClose };

class ShardReader {
 public:
  // Opens the dataset of `entry` on `rank`. Throws an input error with file, path and both shapes
  // if it has not the shape of `held` and the entry's dtype.
  ShardReader(const trace::Source& source, const trace::TensorEntry& entry, std::uint64_t rank,
              const layout::LocalLayout& held, Between between = Between::kKeepOpen);

  std::uint64_t rank() const { return rank_; }
  std::uint64_t bytes_read() const { return bytes_read_; }

  // Reads the stored bits of `box`, in coordinates of the rank's array and within its part of it.
  // The buffer is the caller's: a block of many replicas has many readers and needs few buffers.
  void read_bits(const tensor::Box& box, std::vector<std::byte>& bits);

  // Returns the values of `box` where they lie in the memory of a device that `backend` reads, and
  // counts them as read; nothing if they lie elsewhere, or not one after the other.
  std::optional<StoredValues> values_on_device(const tensor::Box& box, const Backend& backend);

  // Decodes bits into logical values: stored value × scale.
  void decode(std::span<const std::byte> bits, std::span<double> out) const;

 private:
  void close_if_wanted();

  const trace::Source* source_;
  const trace::TensorEntry* entry_;
  std::uint64_t rank_;
  Between between_;
  tensor::Shape array_;
  std::optional<tensor::Range> range_;
  std::unique_ptr<trace::Dataset> dataset_;
  std::uint64_t bytes_read_ = 0;
};

}  // namespace ttrace::measure
