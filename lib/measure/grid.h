// A coarse grid of cells over a tensor. The sums of any box of the tensor, such as a candidate's
// shard or a block of rows, can be estimated from the sums by cell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "measure/tile_stats.h"
#include "tensor/box.h"

namespace ttrace::measure {

class Grid {
 public:
  static constexpr std::uint64_t kMostParts = 16;     // of a dimension
  static constexpr std::uint64_t kSmallestCell = 64;  // elements; fewer show little of their noise

  // Cuts dimension d into `parts[d]` parts, as even as possible. Throws an input error if that is 0
  // or more than the dimension has elements (an empty dimension has one part).
  Grid(tensor::Shape shape, tensor::Shape parts);

  // Returns a grid of at most `most_cells` cells (≥ 1) that cuts all dimensions as finely as that
  // allows.
  static Grid over(const tensor::Shape& shape, std::uint64_t most_cells);

  const tensor::Shape& shape() const { return shape_; }
  const tensor::Shape& parts() const { return parts_; }
  std::size_t cells() const;

  // Returns the `index`-th cell, in row-major order of the parts.
  tensor::Box cell(std::size_t index) const;
  // Returns the first element of part `part` of dimension `dim`; the extent for the one past the
  // last.
  std::uint64_t border(std::size_t dim, std::uint64_t part) const { return borders_[dim][part]; }

  // Visits every cell that `box` meets, with the share of the cell's elements that lies in the box.
  void for_each_overlap(const tensor::Box& box,
                        const std::function<void(std::size_t cell, double share)>& visit) const;

  // Visits the part of `box` in every cell that it meets; valid until the visit returns.
  void for_each_part(
      const tensor::Box& box,
      const std::function<void(std::size_t cell, const tensor::Box& part)>& visit) const;

 private:
  std::uint64_t part_of(std::size_t dim, std::uint64_t at) const;

  tensor::Shape shape_;
  tensor::Shape parts_;
  std::vector<tensor::Shape> borders_;
};

// Sums over one cell of two tensors.
struct CellSums {
  double d2 = 0;     // Σ (B - A)²; infinite if non-finite values of a pair differ
  double a2 = 0;     // Σ A² of the finite pairs
  double along = 0;  // Σ (B - A)·A of the finite pairs

  // `stats`: of elements of the cell, with A as the reference.
  void add(const TileStats& stats);
  void add(const CellSums& other);
};

// Returns the sums of every part of dimension `dim`; `cells` are in the grid's order.
std::vector<CellSums> sums_of_parts(const Grid& grid, const std::vector<CellSums>& cells,
                                    std::size_t dim);

}  // namespace ttrace::measure
