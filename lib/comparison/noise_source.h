// Gets the noise of a tensor from perturbed runs, or from a calibration made of such runs.
#pragma once

#include <optional>

#include "comparison/pairing.h"
#include "judge/calibration.h"
#include "judge/noise_rule.h"
#include "measure/backend.h"

namespace ttrace::comparison {

class NoiseSource {
 public:
  // `calibration` may be null; it and the backend must outlive the source.
  NoiseSource(const trace::Manifest& reference, const judge::Calibration* calibration,
              const measure::Backend& backend)
      : plan_(reference.tensors), calibration_(calibration), backend_(backend) {}

  // What the pair's perturbed runs say, which are read; without any, what the calibration says of
  // the reference's tensor. Nothing for integers, for a tensor that it does not have in this shape
  // and type, and for one that was put together of several. Adds what was read to `bytes_read`.
  // Throws an input error if a shard cannot be read.
  std::optional<judge::NoiseEstimate> of(const trace::Source& reference, const Pair& pair,
                                         std::uint64_t& bytes_read) const;

  // The cells by which perturbed runs of the tensor are summed.
  measure::Grid grid_for(const Pair& pair) const { return plan_.grid_for(pair.reference->shape); }

 private:
  judge::GridPlan plan_;
  const judge::Calibration* calibration_;
  const measure::Backend& backend_;
};

// The calibration's entry for a tensor of the reference, if shape and type are the same.
const judge::CalibratedTensor* calibrated(const judge::Calibration& calibration,
                                          const trace::TensorEntry& entry);

}  // namespace ttrace::comparison
