#include "engine/clipping.h"

#include <cmath>
#include <utility>

#include "base/error.h"
#include "compare/measure_update.h"
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

Clipping::Clipping(const trace::Source& candidate, std::map<trace::TensorKey, double> squared_norms)
    : candidate_(candidate), squared_norms_(std::move(squared_norms)) {}

Clipping::Norms& Clipping::norms_of(std::uint64_t step) {
  const auto [known, fresh] = steps_.try_emplace(step);
  Norms& norms = known->second;
  if (!fresh) return norms;
  bool found = false;
  for (const trace::TensorEntry& entry : candidate_.manifest().tensors) {
    if (entry.key.step != step || entry.key.kind != trace::Kind::kGradNorm) continue;
    try {
      if (tensor::element_count(entry.shape) != 1 || !tensor::is_floating(entry.dtype)) {
        norms.problem = "the gradient norm is not one number";
        return norms;
      }
      const double value = scalar_value(candidate_, entry);
      if (!std::isfinite(value) || value < 0) {
        norms.problem = "the gradient norm is not finite";
      } else if (found && !near(value, norms.recorded)) {
        norms.problem = "there are several gradient norms";
      }
      norms.recorded = value;
      found = true;
    } catch (const base::Error& error) {
      if (error.kind() != base::ErrorKind::kInput) throw;
      norms.problem = "the gradient norm cannot be read";
    }
    if (!norms.problem.empty()) return norms;
  }
  if (!found) norms.problem = "gradients are clipped, but their norm was not recorded";
  return norms;
}

void Clipping::read_own(std::uint64_t step, Norms& norms) const {
  norms.known_own = true;
  double squares = 0;
  for (const trace::TensorEntry& entry : candidate_.manifest().tensors) {
    const trace::TensorKey& key = entry.key;
    if (key.step != step || key.kind != trace::Kind::kMainGrad || key.copy != 0) continue;
    if (!tensor::is_floating(entry.dtype)) continue;
    const auto known = squared_norms_.find(key);
    try {
      squares += known != squared_norms_.end()
                     ? known->second
                     : compare::squared_norm({&candidate_, layout::view_of(entry)});
    } catch (const base::Error& error) {
      if (error.kind() != base::ErrorKind::kInput) throw;
      norms.own_problem = "a main gradient, and so what was clipped, cannot be read";
      return;
    }
  }
  norms.own = std::sqrt(squares);
}

Clip Clipping::of(std::uint64_t step, double clip_norm) {
  Norms& norms = norms_of(step);
  if (!norms.problem.empty()) return {1, norms.problem};
  const double factor = update::clip_coefficient(clip_norm, norms.recorded);
  if (factor >= 1) return {};
  if (!norms.known_own) read_own(step, norms);
  if (!norms.own_problem.empty()) return {1, norms.own_problem};
  const double clipped = factor * norms.recorded;
  // Where both fit, clipping changes next to nothing, and the nearer one is taken.
  if (near(norms.own, norms.recorded)) {
    const bool nearer_clipped =
        std::abs(norms.own - clipped) < std::abs(norms.own - norms.recorded);
    return nearer_clipped ? Clip{} : Clip{factor, ""};
  }
  if (near(norms.own, clipped)) return {};
  // More than clipping leaves: it cannot have been clipped yet.
  if (norms.own > clipped) return {factor, ""};
  return {1,
          "the norm of the main gradients is neither the recorded one nor the one they are clipped "
          "to, so whether they are clipped cannot be told"};
}

}  // namespace ttrace::engine
