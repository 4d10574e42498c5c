// Whether boxes cover a tensor once: the question behind every explicit placement.
#pragma once

#include <cstddef>
#include <vector>

#include "tensor/box.h"

namespace ttrace::layout {

// A part of the tensor that nobody covers (no owners), or that two boxes do.
struct CoverageDefect {
  tensor::Box where;
  std::vector<std::size_t> owners;  // indices of boxes; none or two
};

// Empty exactly if every element of `shape` lies in one box, all of which must lie within `shape`;
// else overlaps, and a gap if there is one that the overlaps do not hide, `most` at most.
std::vector<CoverageDefect> coverage_defects(const tensor::Shape& shape,
                                             const std::vector<tensor::Box>& boxes,
                                             std::size_t most = 4);

}  // namespace ttrace::layout
