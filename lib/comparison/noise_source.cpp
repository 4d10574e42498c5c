#include "comparison/noise_source.h"

#include "measure/noise.h"

namespace ttrace::comparison {

const judge::CalibratedTensor* calibrated(const judge::Calibration& calibration,
                                          const trace::TensorEntry& entry) {
  const auto found = calibration.tensors.find(entry.key);
  if (found == calibration.tensors.end()) return nullptr;
  const judge::CalibratedTensor& tensor = found->second;
  return tensor.shape == entry.shape && tensor.dtype == entry.dtype ? &tensor : nullptr;
}

std::optional<judge::NoiseEstimate> NoiseSource::of(const trace::Source& reference,
                                                    const Pair& pair,
                                                    std::uint64_t& bytes_read) const {
  if (!tensor::is_floating(pair.reference->dtype)) return std::nullopt;
  if (!pair.noise.empty()) {
    const measure::Grid grid = plan_.grid_for(pair.reference->shape);
    const measure::Noise noise =
        measure::measure_noise(backend_, {&reference, pair.reference}, pair.noise, grid);
    bytes_read += noise.bytes_read;
    return judge::estimate_of(noise, grid);
  }
  const auto* stored = std::get_if<layout::Stored>(&pair.reference->how);
  if (calibration_ == nullptr || stored == nullptr) return std::nullopt;
  const judge::CalibratedTensor* tensor = calibrated(*calibration_, *stored->entry);
  if (tensor == nullptr) return std::nullopt;
  return tensor->noise;
}

}  // namespace ttrace::comparison
