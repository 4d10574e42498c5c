#include "measure/grid.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"

namespace ttrace::measure {
namespace {

// i · extent / parts without overflow, for i ≤ parts.
std::uint64_t even_border(std::uint64_t extent, std::uint64_t parts, std::uint64_t i) {
  return extent / parts * i + extent % parts * i / parts;
}

}  // namespace

Grid::Grid(tensor::Shape shape, tensor::Shape parts)
    : shape_(std::move(shape)), parts_(std::move(parts)) {
  bool fits = shape_.size() == parts_.size();
  for (std::size_t d = 0; fits && d < shape_.size(); ++d) {
    fits = parts_[d] >= 1 && parts_[d] <= std::max<std::uint64_t>(shape_[d], 1) &&
           parts_[d] <= kMostParts;
  }
  if (!fits) {
    throw base::input_error("a grid of ", tensor::to_string(parts_), " cells does not fit ",
                            tensor::to_string(shape_), "; a dimension has 1 to ", kMostParts,
                            " parts, and no more than elements");
  }
  for (std::size_t d = 0; d < shape_.size(); ++d) {
    tensor::Shape borders;
    for (std::uint64_t i = 0; i <= parts_[d]; ++i) {
      borders.push_back(even_border(shape_[d], parts_[d], i));
    }
    borders_.push_back(std::move(borders));
  }
}

Grid Grid::over(const tensor::Shape& shape, std::uint64_t most_cells) {
  tensor::Shape parts(shape.size(), 1);
  const std::uint64_t elements = tensor::element_count(shape).value_or(0);
  std::uint64_t cells = 1;
  while (cells * 2 <= most_cells && cells * 2 * kSmallestCell <= elements) {
    std::optional<std::size_t> next;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (parts[d] * 2 > std::min(shape[d], kMostParts)) continue;
      const bool fewer = !next || parts[d] < parts[*next];
      const bool longer = next && parts[d] == parts[*next] && shape[d] > shape[*next];
      if (fewer || longer) next = d;
    }
    if (!next) break;
    parts[*next] *= 2;
    cells *= 2;
  }
  return Grid(shape, std::move(parts));
}

std::size_t Grid::cells() const {
  std::size_t count = 1;
  for (const std::uint64_t parts : parts_) count *= parts;
  return count;
}

tensor::Box Grid::cell(std::size_t index) const {
  tensor::Box box{tensor::Shape(shape_.size()), tensor::Shape(shape_.size())};
  for (std::size_t d = shape_.size(); d-- > 0;) {
    const std::uint64_t part = index % parts_[d];
    index /= parts_[d];
    box.origin[d] = border(d, part);
    box.extent[d] = border(d, part + 1) - border(d, part);
  }
  return box;
}

std::uint64_t Grid::part_of(std::size_t dim, std::uint64_t at) const {
  const tensor::Shape& borders = borders_[dim];
  const auto after = std::upper_bound(borders.begin(), borders.end(), at);
  return static_cast<std::uint64_t>(after - borders.begin()) - 1;
}

void Grid::for_each_part(
    const tensor::Box& box,
    const std::function<void(std::size_t cell, const tensor::Box& part)>& visit) const {
  if (tensor::empty(box)) return;
  const std::size_t dims = shape_.size();
  tensor::Shape first(dims);
  tensor::Shape last(dims);
  for (std::size_t d = 0; d < dims; ++d) {
    first[d] = part_of(d, box.origin[d]);
    last[d] = part_of(d, box.origin[d] + box.extent[d] - 1);
  }
  tensor::Shape at = first;
  tensor::Box part = box;
  while (true) {
    std::size_t index = 0;
    for (std::size_t d = 0; d < dims; ++d) {
      index = index * parts_[d] + at[d];
      part.origin[d] = std::max(box.origin[d], border(d, at[d]));
      part.extent[d] =
          std::min(box.origin[d] + box.extent[d], border(d, at[d] + 1)) - part.origin[d];
    }
    visit(index, part);
    std::size_t d = dims;
    while (d > 0 && at[d - 1] == last[d - 1]) {
      at[d - 1] = first[d - 1];
      --d;
    }
    if (d == 0) return;
    ++at[d - 1];
  }
}

void Grid::for_each_overlap(
    const tensor::Box& box,
    const std::function<void(std::size_t cell, double share)>& visit) const {
  for_each_part(box, [&](std::size_t index, const tensor::Box& part) {
    double share = 1;
    std::size_t inner = cells();
    for (std::size_t d = 0; d < shape_.size(); ++d) {
      inner /= parts_[d];
      const std::uint64_t at = index / inner % parts_[d];
      share *= static_cast<double>(part.extent[d]) /
               static_cast<double>(border(d, at + 1) - border(d, at));
    }
    visit(index, share);
  });
}

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

}  // namespace ttrace::measure
