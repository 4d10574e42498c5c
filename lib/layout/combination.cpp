#include "layout/combination.h"

#include "base/error.h"

namespace ttrace::layout {

Combination combination_of(const std::vector<AxisView>& views) {
  Combination combination;
  bool sums = false;
  for (const AxisView& view : views) {
    const auto* partial = std::get_if<trace::Partial>(view.placement);
    if (partial == nullptr) continue;
    if (partial->reduction == trace::Reduction::kMax) {
      combination.maximum = true;
    } else {
      sums = true;
    }
    if (partial->reduction == trace::Reduction::kMean) {
      combination.factor /= static_cast<double>(view.held.size());
    }
  }
  if (combination.maximum && sums) {
    throw base::input_error(
        "placements: a maximum over one axis and a sum or mean over another "
        "cannot be combined");
  }
  return combination;
}

}  // namespace ttrace::layout
