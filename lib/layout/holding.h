// What one rank holds of a logical tensor: which boxes of it, and where they lie in its dataset.
#pragma once

#include <optional>
#include <vector>

#include "layout/ranges.h"
#include "tensor/box.h"

namespace ttrace::layout {

// A box of the logical tensor and the box of equal extent that it is in the rank's array.
struct Part {
  tensor::Box global;
  tensor::Box local;

  bool operator==(const Part&) const = default;
};

struct Holding {
  tensor::Shape shape;         // of the rank's array
  std::optional<Range> range;  // set: the dataset is this range of the array, flattened
  std::vector<Part> parts;     // disjoint, in the row-major order of the array; none empty

  // Shape of the dataset.
  tensor::Shape dataset_shape() const;

  bool operator==(const Holding&) const = default;
};

// `held`: what the rank holds of every dimension; `range`: of the array they make. Throws an input
// error if the range ends beyond the array, or if there are more than a million parts.
Holding make_holding(const std::vector<Ranges>& held, std::optional<Range> range);

}  // namespace ttrace::layout
