// How far disturbed runs of the reference are from it, tensor by tensor: the raw material of
// tolerances.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compare/grid.h"
#include "compare/measure.h"

namespace ttrace::compare {

struct Noise {
  double reference_norm = 0;    // ‖R‖ over the finite elements
  std::vector<double> norms;    // ‖R' - R‖ of every run R', infinite if it is not finite
  std::vector<double> largest;  // max |R' - R| of every run
  std::vector<double> cells;    // of every cell of the grid, the largest ‖R' - R‖ over the runs
  std::uint64_t bytes_read = 0;
  // |⟨R' - R, R⟩| / (‖R' - R‖·‖R‖), the root mean square over the runs that are finite and not R.
  std::optional<double> coherence = std::nullopt;
};

// One run's distance in one section (sections.h).
struct NoiseSums {
  std::vector<CellSums> cells;
  double largest = 0;
  double along = 0;  // ⟨R' - R, R⟩
};

struct NoiseSection {
  std::vector<NoiseSums> runs;
  std::uint64_t bytes_read = 0;
};

NoiseSection measure_noise_section(const TensorRef& reference, const std::vector<TensorRef>& runs,
                                   const Grid& grid, const tensor::Box& section);
// `sections`: all of the tensor's, in their order.
Noise put_together(const std::vector<NoiseSection>& sections);

// `runs` must have the shape of `reference`, as must `grid`. The result depends on the tensors
// alone, not on how a candidate is cut. Throws an input error if a shard cannot be read.
Noise measure_noise(const TensorRef& reference, const std::vector<TensorRef>& runs,
                    const Grid& grid);

}  // namespace ttrace::compare
