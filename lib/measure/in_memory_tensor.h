// The values of one box of a tensor, as they are stored where that is possible.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "measure/measure.h"
#include "measure/tensor_reader.h"

namespace ttrace::measure {

class BoxValues {
 public:
  // Reads `box`. Valid until the next read of `reader`.
  void read(TensorReader& reader, const tensor::Box& box);

  const tensor::Box& box() const { return box_; }
  // Nothing where they are put together from several shards.
  const std::optional<StoredValues>& stored() const { return stored_; }
  // Decoded when first asked for.
  std::span<const double> numbers();
  // To be changed: from now on these are the values, and nothing is stored.
  std::span<double> changed();

 private:
  tensor::Box box_;
  std::optional<StoredValues> stored_;
  std::vector<double> numbers_;
  bool decoded_ = false;
};

// A logical tensor read once and kept in memory, to be measured many times.

// Reads all of `tensor` (16 bytes of memory or fewer for each of its elements) and returns a
// reference to the same tensor that reads from memory: values, regions, places and what its
// replicas looked like are those that `tensor` gives with `replicas`, whatever it is opened with.
// `exact`: its integers are kept, else its numbers. Throws an input error if a shard cannot be
// read. The readers share what is kept, and are for one thread.
TensorRef hold(const TensorRef& tensor, Replicas replicas, bool exact);

}  // namespace ttrace::measure
