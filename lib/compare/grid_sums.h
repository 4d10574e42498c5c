// Sums over two tensors, cell by cell of a grid.
#pragma once

#include <span>
#include <vector>

#include "compare/grid.h"

namespace ttrace::compare {

struct CellSums {
  double d2 = 0;  // Σ (B - A)²; infinite where one of a pair is not finite, or two differently so
  double a2 = 0;  // Σ A² of the finite pairs
};

class GridSums {
 public:
  // `grid` must outlive the sums.
  explicit GridSums(const Grid& grid) : grid_(&grid), cells_(grid.cells()) {}

  // `a` and `b`: the values of `box` in row-major order. Every element is to be added once.
  void add(const tensor::Box& box, std::span<const double> a, std::span<const double> b);

  const std::vector<CellSums>& cells() const { return cells_; }
  double largest() const { return largest_; }  // max |B - A| of the finite pairs

 private:
  const Grid* grid_;
  std::vector<CellSums> cells_;
  double largest_ = 0;
};

}  // namespace ttrace::compare
