// Measures a pair and the perturbed runs of its reference together, so that the reference is read
// once.
#pragma once

#include <vector>

#include "measure/measure.h"
#include "measure/noise.h"

namespace ttrace::measure {

struct SectionWithNoise {
  MeasuredSection pair;
  NoiseSection noise;
  bool by_grid = false;  // whether the pair is summed by the grid of the noise, or as one cell
};

// Measures one section of a pair as measure_section() does, and of the runs as
// measure_noise_section() does, with the same bits. The pair is summed by `grid` if a run differs
// from the reference in the first elements, or if there are few and `by_grid`; else as one cell.
// Reads the reference a second time only where the candidate is shared by many ranks, and so read
// in larger boxes. Throws an input error if a shard cannot be read.
SectionWithNoise measure_with_noise(const Backend& backend, const TensorRef& reference,
                                    const TensorRef& candidate, const std::vector<TensorRef>& runs,
                                    const Grid& grid, const tensor::Box& section, bool by_grid);

}  // namespace ttrace::measure
