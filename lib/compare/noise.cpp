#include "compare/noise.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "compare/grid_sums.h"
#include "compare/tensor_reader.h"

namespace ttrace::compare {

Noise measure_noise(const TensorRef& reference, const std::vector<TensorRef>& runs,
                    const Grid& grid) {
  const auto base = make_reader(*reference.source, *reference.view, Replicas::kFirstOnly);
  std::vector<std::unique_ptr<TensorReader>> readers;
  std::vector<GridSums> sums;
  for (const TensorRef& run : runs) {
    readers.push_back(make_reader(*run.source, *run.view, Replicas::kFirstOnly));
    sums.emplace_back(grid);
  }
  std::vector<double> r;
  std::vector<double> n;
  tensor::for_each_slab(tensor::whole(grid.shape()), kSlabElements, [&](const tensor::Box& slab) {
    const std::size_t count = tensor::volume(slab);
    r.resize(count);
    n.resize(count);
    base->read(slab, r);
    for (std::size_t i = 0; i < readers.size(); ++i) {
      readers[i]->read(slab, n);
      sums[i].add(slab, r, n);
    }
  });

  Noise noise;
  noise.cells.resize(grid.cells(), 0);
  noise.bytes_read = base->bytes_read();
  for (std::size_t i = 0; i < sums.size(); ++i) {
    CellSums total;
    for (std::size_t cell = 0; cell < noise.cells.size(); ++cell) {
      const CellSums& here = sums[i].cells()[cell];
      total.d2 += here.d2;
      total.a2 += here.a2;
      noise.cells[cell] = std::max(noise.cells[cell], std::sqrt(here.d2));
    }
    noise.norms.push_back(std::sqrt(total.d2));
    noise.largest.push_back(sums[i].largest());
    // Of the run with the most finite pairs.
    noise.reference_norm = std::max(noise.reference_norm, std::sqrt(total.a2));
    noise.bytes_read += readers[i]->bytes_read();
  }
  return noise;
}

}  // namespace ttrace::compare
