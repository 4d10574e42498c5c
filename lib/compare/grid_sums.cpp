#include "compare/grid_sums.h"

#include <limits>

namespace ttrace::compare {

void CellSums::add(const TileStats& stats) {
  d2 += stats.nonfinite_different > 0 ? std::numeric_limits<double>::infinity() : stats.sum_d2;
  a2 += stats.sum_r2;
  along += stats.sum_rc - stats.sum_r2;
}

void CellSums::add(const CellSums& other) {
  d2 += other.d2;
  a2 += other.a2;
  along += other.along;
}

std::vector<CellSums> sums_of_parts(const Grid& grid, const std::vector<CellSums>& cells,
                                    std::size_t dim) {
  const tensor::Shape& parts = grid.parts();
  std::size_t inner = 1;
  for (std::size_t d = dim + 1; d < parts.size(); ++d) inner *= parts[d];
  std::vector<CellSums> sums(parts[dim]);
  for (std::size_t cell = 0; cell < cells.size(); ++cell) {
    sums[cell / inner % parts[dim]].add(cells[cell]);
  }
  return sums;
}

}  // namespace ttrace::compare
