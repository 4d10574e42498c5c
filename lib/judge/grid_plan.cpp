#include <algorithm>

#include "base/bytes.h"
#include "judge/calibration.h"

namespace ttrace::judge {
namespace {

constexpr std::uint64_t kMostCells = 256;           // of a tensor: 16 × 16
constexpr std::uint64_t kSmallestBudget = 2000000;  // bytes of a calibration that are always fine
constexpr std::uint64_t kBytesPerTensor = 290;      // key, norms and punctuation, as they turn out
constexpr std::uint64_t kBytesPerCell = 6;

}  // namespace

GridPlan::GridPlan(const std::vector<trace::TensorEntry>& tensors) {
  double bytes = 0;
  for (const trace::TensorEntry& entry : tensors) {
    bytes += static_cast<double>(tensor::byte_count(entry.shape, entry.dtype).value_or(0));
  }
  const double budget = std::max(static_cast<double>(kSmallestBudget), bytes / 1000) -
                        static_cast<double>(tensors.size() * kBytesPerTensor);
  for (most_cells_ = kMostCells; most_cells_ > 1; most_cells_ /= 2) {
    double cells = 0;
    for (const trace::TensorEntry& entry : tensors) {
      if (!tensor::is_floating(entry.dtype)) continue;
      const std::uint64_t elements = tensor::element_count(entry.shape).value_or(0);
      cells += static_cast<double>(
          std::clamp<std::uint64_t>(elements / measure::Grid::kSmallestCell, 1, most_cells_));
    }
    if (cells * static_cast<double>(kBytesPerCell) <= budget) return;
  }
}

measure::Grid GridPlan::grid_for(const tensor::Shape& shape) const {
  return measure::Grid::over(shape, most_cells_);
}

}  // namespace ttrace::judge
