#include "engine/clipping.h"

#include <cmath>

#include "base/error.h"
#include "compare/tensor_reader.h"
#include "update/replay.h"

namespace ttrace::engine {
namespace {

// Norms summed in other orders and precisions agree to much better than this.
constexpr double kSameNorm = 0.01;

bool near(double a, double b) { return std::abs(a - b) <= kSameNorm * b; }

double scalar_value(const trace::Source& source, const trace::TensorEntry& entry) {
  const layout::ViewPtr view = layout::view_of(entry);
  const auto reader = compare::make_reader(source, *view, compare::Replicas::kFirstOnly);
  double value = 0;
  reader->read(tensor::whole(entry.shape), {&value, 1});
  return value;
}

}  // namespace

Clipping::Clipping(const trace::Source& candidate, MainGradientNorms& gradients)
    : candidate_(candidate), gradients_(gradients) {}

const Clipping::Recorded& Clipping::recorded(std::uint64_t step) {
  const auto [known, fresh] = steps_.try_emplace(step);
  Recorded& recorded = known->second;
  if (!fresh) return recorded;
  bool found = false;
  for (const trace::TensorEntry& entry : candidate_.manifest().tensors) {
    if (entry.key.step != step || entry.key.kind != trace::Kind::kGradNorm) continue;
    try {
      if (tensor::element_count(entry.shape) != 1 || !tensor::is_floating(entry.dtype)) {
        recorded.problem = "the gradient norm is not one number";
        return recorded;
      }
      const double value = scalar_value(candidate_, entry);
      if (!std::isfinite(value) || value < 0) {
        recorded.problem = "the gradient norm is not finite";
      } else if (found && !near(value, recorded.norm)) {
        recorded.problem = "there are several gradient norms";
      }
      recorded.norm = value;
      found = true;
    } catch (const base::Error& error) {
      if (error.kind() != base::ErrorKind::kInput) throw;
      recorded.problem = "the gradient norm cannot be read";
    }
    if (!recorded.problem.empty()) return recorded;
  }
  if (!found) recorded.problem = "gradients are clipped, but their norm was not recorded";
  return recorded;
}

Clip Clipping::of(std::uint64_t step, double clip_norm) {
  const Recorded& told = recorded(step);
  if (!told.problem.empty()) return {1, told.problem};
  const double factor = update::clip_coefficient(clip_norm, told.norm);
  if (factor >= 1) return {};
  const MainGradientNorm& own = gradients_.of(step);
  if (!own.problem.empty()) return {1, own.problem};
  const double clipped = factor * told.norm;
  // Where both fit, clipping changes next to nothing, and the nearer one is taken.
  if (near(own.norm, told.norm)) {
    const bool nearer_clipped = std::abs(own.norm - clipped) < std::abs(own.norm - told.norm);
    return nearer_clipped ? Clip{} : Clip{factor, ""};
  }
  if (near(own.norm, clipped)) return {};
  // More than clipping leaves: it cannot have been clipped yet.
  if (own.norm > clipped) return {factor, ""};
  return {1,
          "the norm of the main gradients is neither the recorded one nor the one they are clipped "
          "to, so whether they are clipped cannot be told"};
}

}  // namespace ttrace::engine
