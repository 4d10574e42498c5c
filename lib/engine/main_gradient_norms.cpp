#include "engine/main_gradient_norms.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "compare/measure_update.h"
#include "tolerance/sum_rounding.h"
#include "update/rounding.h"

namespace ttrace::engine {
namespace {

// Half-precision gradients are squared and added up in single precision, and each tensor's norm is
// rounded to their own type.
double rounding_of(const trace::TensorEntry& entry) {
  const double single = *update::unit_roundoff(tensor::DType::kFloat32);
  const double own = update::unit_roundoff(entry.dtype).value_or(single);
  const std::uint64_t elements = tensor::element_count(entry.shape).value_or(0);
  const double summed = tolerance::norm_rounding(elements, std::min(own, single));
  return own > single ? summed + own : summed;
}

}  // namespace

MainGradientNorms::MainGradientNorms(const trace::Source& run,
                                     std::map<trace::TensorKey, double> squared_norms)
    : run_(run), squared_norms_(std::move(squared_norms)) {}

const MainGradientNorm& MainGradientNorms::of(std::uint64_t step) {
  const auto known = steps_.find(step);
  if (known != steps_.end()) return known->second;
  return steps_.emplace(step, made(step)).first->second;
}

MainGradientNorm MainGradientNorms::made(std::uint64_t step) const {
  double squares = 0;
  double rounding = 0;  // Σ ‖g‖²·rounding: a tensor counts by its share of the sum
  double coarsest = 0;
  bool any = false;
  for (const trace::TensorEntry& entry : run_.manifest().tensors) {
    const trace::TensorKey& key = entry.key;
    if (key.step != step || key.kind != trace::Kind::kMainGrad || key.copy != 0) continue;
    if (!tensor::is_floating(entry.dtype)) continue;
    any = true;
    const auto known = squared_norms_.find(key);
    try {
      const double square = known != squared_norms_.end()
                                ? known->second
                                : compare::squared_norm({&run_, layout::view_of(entry)});
      squares += square;
      rounding += square * rounding_of(entry);
      coarsest = std::max(coarsest, update::unit_roundoff(entry.dtype).value_or(0));
    } catch (const base::Error& error) {
      if (error.kind() != base::ErrorKind::kInput) throw;
      return {0, 0, "a main gradient, and so what was clipped, cannot be read"};
    }
  }
  if (!any) return {0, 0, "no main gradient was recorded"};
  if (!std::isfinite(squares)) return {0, 0, "the main gradients are too large to be squared"};
  // The norms of all tensors are added up once more, and the root is rounded.
  const double last = 4 * std::max(coarsest, *update::unit_roundoff(tensor::DType::kFloat32));
  return {std::sqrt(squares), (squares > 0 ? rounding / squares : 0) + last, ""};
}

std::map<trace::TensorKey, double> squares_of_main_gradients(
    const std::vector<Pair>& pairs, const std::vector<report::Result>& results,
    layout::ViewPtr Pair::*side) {
  std::map<trace::TensorKey, double> squares;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (pairs[i].key.kind != trace::Kind::kMainGrad || !results[i].comparison) continue;
    const auto* stored = std::get_if<layout::Stored>(&(pairs[i].*side)->how);
    const compare::TileStats& stats = results[i].comparison->measurement.total;
    if (stored == nullptr || stats.finite != stats.elements) continue;
    squares.emplace(stored->entry->key, side == &Pair::reference ? stats.sum_r2 : stats.sum_c2);
  }
  return squares;
}

}  // namespace ttrace::engine
