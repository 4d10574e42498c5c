// How far disturbed runs of the reference are from it, tensor by tensor: the raw material of
// tolerances.
#pragma once

#include <cstdint>
#include <vector>

#include "measure/backend.h"
#include "measure/grid.h"
#include "measure/tensor_reader.h"

namespace ttrace::measure {

struct Noise {
  double reference_norm = 0;    // ‖R‖ over the finite elements
  std::vector<double> norms;    // ‖R' - R‖ of every run R', infinite if it is not finite
  std::vector<double> largest;  // max |R' - R| of every run
  std::vector<double> cells;    // of every cell of the grid, the largest ‖R' - R‖ over the runs
  std::uint64_t bytes_read = 0;
  // |⟨R' - R, R⟩| / (‖R' - R‖·‖R‖), the root mean square over the runs, of the whole and then, for
  // every dimension, of the parts that the grid cuts it into (0 where it does not). Runs and parts
  // that are not finite or equal R's do not count; empty where none of the whole's does.
  std::vector<double> coherence = {};
};

// The sums of one section (sections.h).
struct NoiseSection {
  std::vector<NoiseSums> runs;
  std::uint64_t bytes_read = 0;
};

NoiseSection measure_noise_section(const Backend& backend, const TensorRef& reference,
                                   const std::vector<TensorRef>& runs, const Grid& grid,
                                   const tensor::Box& section);
// `sections`: all of the tensor's, in their order.
Noise put_together(const std::vector<NoiseSection>& sections, const Grid& grid);

// `runs` must have the shape of `reference`, as must `grid`. The result depends on the tensors
// alone, not on how a candidate is cut. Throws an input error if a shard cannot be read.
Noise measure_noise(const Backend& backend, const TensorRef& reference,
                    const std::vector<TensorRef>& runs, const Grid& grid);

}  // namespace ttrace::measure
