#include "compare/grid_sums.h"

#include <limits>

namespace ttrace::compare {

void CellSums::add(const TileStats& stats) {
  d2 += stats.nonfinite_different > 0 ? std::numeric_limits<double>::infinity() : stats.sum_d2;
  a2 += stats.sum_r2;
}

void for_each_cell(const Grid& grid, const tensor::Box& box,
                   const std::function<void(std::size_t cell, const tensor::Box& part)>& visit) {
  grid.for_each_overlap(box, [&](std::size_t cell, double) {
    visit(cell, *tensor::intersect(grid.cell(cell), box));
  });
}

}  // namespace ttrace::compare
