// The local layout of a rank: which boxes of a logical tensor it has, and where they lie in its
// dataset. Also checks that boxes cover a tensor once.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "tensor/box.h"

namespace ttrace::layout {

using tensor::Range;
using tensor::Ranges;

// The most boxes of all ranks of a tensor together. Only a damaged manifest has more, and they
// would take the memory of the machine.
inline constexpr std::size_t kMostBoxes = std::size_t{1} << 22;

// A box of the logical tensor and the box of equal extent that it is in the rank's array.
struct PlacedBox {
  tensor::Box global;
  tensor::Box local;

  bool operator==(const PlacedBox&) const = default;
};

struct LocalLayout {
  tensor::Shape shape;           // of the rank's array
  std::optional<Range> range;    // set: the dataset is this range of the array, flattened
  std::vector<PlacedBox> parts;  // disjoint, in the row-major order of the array; none empty

  // Shape of the dataset.
  tensor::Shape dataset_shape() const;

  bool operator==(const LocalLayout&) const = default;
};

// Returns the layout of a rank that has the indices `held` of every dimension. With `range`, its
// dataset has this range of that array, flattened. Throws an input error if the range ends beyond
// the array, or if there are more than a million boxes.
LocalLayout make_local_layout(const std::vector<Ranges>& held, std::optional<Range> range);

// A part of the tensor that no box covers (no owners), or that two boxes cover.
struct CoverageDefect {
  tensor::Box where;
  std::vector<std::size_t> owners;  // indices of boxes; none or two
};

// Returns nothing exactly if every element of `shape` lies in one of `boxes`, which must lie within
// `shape`. Else overlaps, and a gap if the overlaps do not hide it; at most `most` defects.
std::vector<CoverageDefect> coverage_defects(const tensor::Shape& shape,
                                             const std::vector<tensor::Box>& boxes,
                                             std::size_t most = 4);

}  // namespace ttrace::layout
