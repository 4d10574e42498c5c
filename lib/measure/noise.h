// Measures perturbed runs of the reference, tensor by tensor: tolerances are made from their
// distances.
#pragma once

#include <cstdint>
#include <vector>

#include "measure/backend.h"
#include "measure/grid.h"
#include "measure/tensor_reader.h"

namespace ttrace::measure {

struct MeasuredNoise {
  double reference_norm = 0;    // ‖R‖ over the finite elements
  std::vector<double> norms;    // ‖R' - R‖ of every run R', infinite if it is not finite
  std::vector<double> largest;  // max |R' - R| of every run
  std::vector<double> cells;  // the largest ‖R' - R‖ over the runs, for every cell of the grid
  std::uint64_t bytes_read = 0;
  // |⟨R' - R, R⟩| / (‖R' - R‖·‖R‖) as a root mean square over the runs: first of the whole tensor,
  // then per dimension over the parts into which the grid cuts it (0 if it does not). Runs and
  // parts that equal R or are not finite do not count; empty if no run counts.
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
// Adds up all sections of a tensor, in their order.
MeasuredNoise merge_sections(const std::vector<NoiseSection>& sections, const Grid& grid);

// `runs` and `grid` must have the shape of `reference`. The result depends on the tensors alone,
// not on how a candidate is sharded. Throws an input error if a shard cannot be read.
MeasuredNoise measure_noise(const Backend& backend, const TensorRef& reference,
                            const std::vector<TensorRef>& runs, const Grid& grid);

}  // namespace ttrace::measure
