// The values of one box of a tensor, as they are stored where that is possible.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "compare/tensor_reader.h"

namespace ttrace::compare {

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

}  // namespace ttrace::compare
