#include "engine/noise_source.h"

#include "base/concat.h"
#include "base/error.h"
#include "base/number_text.h"
#include "compare/noise.h"

namespace ttrace::engine {

const tolerance::CalibratedTensor* calibrated(const tolerance::Calibration& calibration,
                                              const trace::TensorEntry& entry) {
  const auto found = calibration.tensors.find(entry.key);
  if (found == calibration.tensors.end()) return nullptr;
  const tolerance::CalibratedTensor& tensor = found->second;
  return tensor.shape == entry.shape && tensor.dtype == entry.dtype ? &tensor : nullptr;
}

std::optional<tolerance::NoiseEstimate> NoiseSource::of(const trace::Source& reference,
                                                        const Pair& pair,
                                                        std::uint64_t& bytes_read) const {
  if (!tensor::is_floating(pair.reference->dtype)) return std::nullopt;
  if (!pair.noise.empty()) {
    const compare::Grid grid = plan_.grid_for(pair.reference->shape);
    const compare::Noise noise =
        compare::measure_noise({&reference, pair.reference}, pair.noise, grid);
    bytes_read += noise.bytes_read;
    return tolerance::estimate_of(noise, grid);
  }
  const auto* stored = std::get_if<layout::Stored>(&pair.reference->how);
  if (calibration_ == nullptr || stored == nullptr) return std::nullopt;
  const tolerance::CalibratedTensor* tensor = calibrated(*calibration_, *stored->entry);
  if (tensor == nullptr) return std::nullopt;
  return tensor->noise;
}

std::vector<std::string> calibration_warnings(const trace::Manifest& reference,
                                              const tolerance::Calibration& calibration,
                                              const std::string& file) {
  if (calibration.tensors.empty()) return {};
  std::size_t floating = 0;
  std::size_t absent = 0;
  std::size_t different = 0;
  std::string first;
  for (const trace::TensorEntry& entry : reference.tensors) {
    if (!tensor::is_floating(entry.dtype)) continue;
    ++floating;
    if (calibrated(calibration, entry) != nullptr) continue;
    const auto found = calibration.tensors.find(entry.key);
    const bool known = found != calibration.tensors.end();
    known ? ++different : ++absent;
    if (!first.empty()) continue;
    first = to_string(entry.key);
    if (known) {
      first +=
          base::concat(": ", tensor::to_string(entry.shape), " ", dtype_short_name(entry.dtype),
                       ", calibrated as ", tensor::to_string(found->second.shape), " ",
                       dtype_short_name(found->second.dtype));
    }
  }
  if (absent + different == 0) return {};
  if (absent + different == floating) {
    throw base::input_error(
        file, ": calibrates none of the reference's tensors (first ", base::printable(first),
        "); it belongs to another model, step or precision: run `ttrace calibrate` on this one");
  }
  return {base::concat(file, " calibrates ", floating - absent - different, " of the reference's ",
                       floating, " floating-point tensors; ", absent, " are not in it, ", different,
                       " have another shape or type there; first ", first)};
}

}  // namespace ttrace::engine
