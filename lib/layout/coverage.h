// Checks that boxes cover a tensor once, as every explicit placement must.
#pragma once

#include <cstddef>
#include <vector>

#include "tensor/box.h"

namespace ttrace::layout {

// A box of the tensor that no box covers (no owners), or that two do.
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
