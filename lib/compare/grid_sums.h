// Sums over two tensors, cell by cell of a grid.
#pragma once

#include <vector>

#include "compare/grid.h"
#include "compare/tile_stats.h"

namespace ttrace::compare {

struct CellSums {
  double d2 = 0;  // Σ (B - A)²; infinite where one of a pair is not finite, or two differently so
  double a2 = 0;  // Σ A² of the finite pairs
  double along = 0;  // Σ (B - A)·A of the finite pairs

  // `stats`: of elements of the cell, A the reference.
  void add(const TileStats& stats);
  void add(const CellSums& other);
};

// Of every part of dimension `dim`; `cells` in the grid's order.
std::vector<CellSums> sums_of_parts(const Grid& grid, const std::vector<CellSums>& cells,
                                    std::size_t dim);

}  // namespace ttrace::compare
