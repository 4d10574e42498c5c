#include "compare/noise.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "compare/box_stats.h"
#include "compare/grid_sums.h"
#include "compare/tensor_reader.h"

namespace ttrace::compare {
namespace {

struct OneRun {
  std::unique_ptr<TensorReader> reader;
  std::vector<CellSums> cells;
  double largest = 0;
};

}  // namespace

Noise measure_noise(const TensorRef& reference, const std::vector<TensorRef>& runs,
                    const Grid& grid) {
  const auto base = make_reader(*reference.source, *reference.view, Replicas::kFirstOnly);
  std::vector<OneRun> others;
  for (const TensorRef& run : runs) {
    others.push_back({make_reader(*run.source, *run.view, Replicas::kFirstOnly),
                      std::vector<CellSums>(grid.cells()), 0});
  }
  BoxValues base_values;
  BoxValues values;
  tensor::for_each_slab(tensor::whole(grid.shape()), kBandElements, [&](const tensor::Box& band) {
    base_values.read(*base, band);
    for (OneRun& other : others) {
      values.read(*other.reader, band);
      for_each_cell(grid, band, [&](std::size_t cell, const tensor::Box& part) {
        TileStats stats;
        add_box(base_values, values, part, stats);
        other.cells[cell].add(stats);
        if (stats.largest) other.largest = std::max(other.largest, stats.largest->difference);
      });
    }
  });

  Noise noise;
  noise.cells.resize(grid.cells(), 0);
  noise.bytes_read = base->bytes_read();
  for (const OneRun& other : others) {
    CellSums total;
    for (std::size_t cell = 0; cell < noise.cells.size(); ++cell) {
      const CellSums& here = other.cells[cell];
      total.d2 += here.d2;
      total.a2 += here.a2;
      noise.cells[cell] = std::max(noise.cells[cell], std::sqrt(here.d2));
    }
    noise.norms.push_back(std::sqrt(total.d2));
    noise.largest.push_back(other.largest);
    // Of the run with the most finite pairs.
    noise.reference_norm = std::max(noise.reference_norm, std::sqrt(total.a2));
    noise.bytes_read += other.reader->bytes_read();
  }
  return noise;
}

}  // namespace ttrace::compare
