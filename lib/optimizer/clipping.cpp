#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <set>
#include <string>

#include "base/error.h"
#include "judge/tolerance.h"
#include "measure/measure_update.h"
#include "measure/optimizer/step.h"
#include "measure/tensor_reader.h"
#include "optimizer/gradient_norm.h"

namespace ttrace::optimizer {
namespace {

// Half-precision gradients are squared and added up in single precision, and each tensor's norm is
// rounded to their own type.
double rounding_of_entry(const trace::TensorEntry& entry) {
  const double single = *measure::unit_roundoff(tensor::DType::kFloat32);
  const double own = measure::unit_roundoff(entry.dtype).value_or(single);
  const std::uint64_t elements = tensor::element_count(entry.shape).value_or(0);
  const double summed = judge::norm_rounding(elements, std::min(own, single));
  return own > single ? summed + own : summed;
}

// ‖g‖² of the main gradients that the comparison has read whole, by the key of the stored tensor.
std::map<trace::TensorKey, double> squares_of_main_gradients(
    const std::vector<comparison::TensorComparison>& results,
    layout::ViewPtr comparison::Pair::*side) {
  std::map<trace::TensorKey, double> squares;
  for (const comparison::TensorComparison& result : results) {
    if (result.key.kind != trace::Kind::kMainGrad || !result.comparison) continue;
    const auto* stored = std::get_if<layout::Stored>(&(result.*side)->how);
    const measure::TileStats& stats = result.comparison->measurement.total;
    if (stored == nullptr || stats.finite != stats.elements) continue;
    squares.emplace(stored->entry->key,
                    side == &comparison::Pair::reference ? stats.sum_r2 : stats.sum_c2);
  }
  return squares;
}

EntriesOfSteps entries_of(const trace::Manifest& manifest,
                          std::initializer_list<trace::Kind> kinds) {
  EntriesOfSteps found;
  for (const trace::TensorEntry& entry : manifest.tensors) {
    if (std::ranges::find(kinds, entry.key.kind) == kinds.end()) continue;
    found[entry.key.step].push_back(&entry);
  }
  return found;
}

// Norms summed in other orders and precisions agree to much better than this.
constexpr double kSameNorm = 0.01;

bool near(double a, double b) { return std::abs(a - b) <= kSameNorm * b; }

double scalar_value(const trace::Source& source, const trace::TensorEntry& entry) {
  const layout::ViewPtr view = layout::view_of(entry);
  const auto reader = measure::make_reader(source, *view, measure::Replicas::kFirstOnly);
  double value = 0;
  reader->read(tensor::whole(entry.shape), {&value, 1});
  return value;
}

}  // namespace

MainGradientNorms::MainGradientNorms(const trace::Source& run,
                                     const std::vector<comparison::TensorComparison>& results,
                                     layout::ViewPtr comparison::Pair::*side)
    : MainGradientNorms(run, squares_of_main_gradients(results, side)) {}

MainGradientNorms::MainGradientNorms(const trace::Source& run,
                                     std::map<trace::TensorKey, double> squared_norms)
    : run_(run),
      parts_(run.manifest()),
      gradients_(entries_of(run.manifest(), {trace::Kind::kMainGrad})),
      squared_norms_(std::move(squared_norms)) {}

const MainGradientNorm& MainGradientNorms::of(std::uint64_t step, const std::string& part) {
  const auto known = known_.find({step, part});
  if (known != known_.end()) return known->second;
  return known_.emplace(std::pair(step, part), norm_of(step, part)).first->second;
}

MainGradientNorm MainGradientNorms::norm_of(std::uint64_t step, const std::string& part) const {
  double squares = 0;
  double rounding = 0;  // Σ ‖g‖²·rounding: a tensor counts by its share of the sum
  double coarsest = 0;
  bool any = false;
  const auto gradients = gradients_.find(step);
  if (gradients == gradients_.end()) return {0, 0, "no main gradient was recorded"};
  for (const trace::TensorEntry* const gradient : gradients->second) {
    const trace::TensorEntry& entry = *gradient;
    const trace::TensorKey& key = entry.key;
    if (key.copy != 0) continue;
    if (!tensor::is_floating(entry.dtype) || !parts_.counts(step, part, key.name)) continue;
    any = true;
    const auto known = squared_norms_.find(key);
    try {
      const double square = known != squared_norms_.end()
                                ? known->second
                                : measure::squared_norm({&run_, layout::view_of(entry)});
      squares += square;
      rounding += square * rounding_of_entry(entry);
      coarsest = std::max(coarsest, measure::unit_roundoff(entry.dtype).value_or(0));
    } catch (const base::InputError& error) {
      return {0, 0, error.what(), true};
    }
  }
  if (!any) return {0, 0, "no main gradient was recorded"};
  if (!std::isfinite(squares)) return {0, 0, "the main gradients are too large to be squared"};
  // The norms of all tensors are added up once more, and the root is rounded.
  const double last = 4 * std::max(coarsest, *measure::unit_roundoff(tensor::DType::kFloat32));
  return {std::sqrt(squares), (squares > 0 ? rounding / squares : 0) + last, ""};
}

Clipping::Clipping(const trace::Source& candidate,
                   const std::vector<comparison::TensorComparison>& results)
    : candidate_(candidate),
      entries_(entries_of(candidate.manifest(), {trace::Kind::kGradNorm, trace::Kind::kParam,
                                                 trace::Kind::kMainGrad, trace::Kind::kParamGrad})),
      gradients_(candidate, results, &comparison::Pair::candidate) {}

const Clipping::Recorded& Clipping::recorded(std::uint64_t step, const std::string& part) {
  const auto [known, fresh] = known_.try_emplace({step, part});
  Recorded& recorded = known->second;
  if (!fresh) return recorded;
  for (const trace::TensorEntry* const one : entries_[step]) {
    const trace::TensorEntry& entry = *one;
    if (entry.key.kind != trace::Kind::kGradNorm) continue;
    if (gradients_.parts().part_of(step, entry.key.name) != part) continue;
    try {
      if (tensor::element_count(entry.shape) != 1 || !tensor::is_floating(entry.dtype)) {
        recorded.problem = "the gradient norm is not one number";
        return recorded;
      }
      const double value = scalar_value(candidate_, entry);
      if (!std::isfinite(value) || value < 0) {
        recorded.problem = "the gradient norm is not finite";
      } else if (recorded.norm && !near(value, *recorded.norm)) {
        recorded.problem = "there are several gradient norms";
      }
      recorded.norm = value;
    } catch (const base::InputError& error) {
      recorded = {std::nullopt, error.what(), true};
    }
    if (!recorded.problem.empty()) return recorded;
  }
  if (!recorded.norm && !has_all_gradients(step, part)) {
    recorded.problem =
        "gradients are clipped, but neither their norm nor all of them were recorded";
  }
  return recorded;
}

bool Clipping::has_all_gradients(std::uint64_t step, const std::string& part) {
  std::set<std::string> updated;
  for (const trace::OptimizerGroup& group : candidate_.manifest().optimizer) {
    const bool counts = part.empty() || group.clipped_by == part;
    if (group.step == step && counts) updated.insert(group.params.begin(), group.params.end());
  }
  std::set<std::string> before;
  std::set<std::string> whole;
  std::set<std::string> raw;
  for (const trace::TensorEntry* const one : entries_[step]) {
    const trace::TensorEntry& entry = *one;
    if (entry.key.kind == trace::Kind::kParam) before.insert(entry.key.name);
    if (entry.key.kind == trace::Kind::kMainGrad) whole.insert(entry.key.name);
    if (entry.key.kind == trace::Kind::kParamGrad) raw.insert(entry.key.name);
  }
  return std::ranges::all_of(updated, [&](const std::string& name) {
    return whole.contains(name) || (before.contains(name) && !raw.empty() && !raw.contains(name));
  });
}

MainGradientNorm Clipping::own_norm(std::uint64_t step, const std::string& part) {
  const Recorded& known = recorded(step, part);
  if (!known.problem.empty()) return {0, 0, known.problem, known.unreadable};
  return gradients_.of(step, part);
}

Clip Clipping::by_own_norm(std::uint64_t step, const std::string& part, double clip_norm) {
  const MainGradientNorm& own = gradients_.of(step, part);
  if (!own.problem.empty()) return {1, 0, own.problem, own.unreadable};
  const double rounding = std::min(own.rounding, judge::kMostNormRounding);
  if (own.norm * (1 + rounding) < clip_norm) return {};
  // Near the limit the job may have clipped or not.
  return {std::min(measure::clip_coefficient(clip_norm, own.norm), 1 - rounding / 2), rounding, ""};
}

Clip Clipping::of(std::uint64_t step, const std::string& part, double clip_norm) {
  const Recorded& known = recorded(step, part);
  if (!known.problem.empty()) return {1, 0, known.problem, known.unreadable};
  if (!known.norm) return by_own_norm(step, part, clip_norm);
  const double norm = *known.norm;
  const double factor = measure::clip_coefficient(clip_norm, norm);
  if (factor >= 1) return {};
  const MainGradientNorm& own = gradients_.of(step, part);
  if (!own.problem.empty()) return {1, 0, own.problem, own.unreadable};
  const double clipped = factor * norm;
  // If both norms fit, clipping changes next to nothing; take the nearer one.
  if (near(own.norm, norm)) {
    const bool nearer_clipped = std::abs(own.norm - clipped) < std::abs(own.norm - norm);
    return nearer_clipped ? Clip{} : Clip{factor, 0, ""};
  }
  if (near(own.norm, clipped)) return {};
  // Clipping leaves no larger norm than `clipped`, so the gradients were recorded before it.
  if (own.norm > clipped) return {factor, 0, ""};
  return {1, 0,
          "the norm of the main gradients is neither the recorded one nor the one they are clipped "
          "to, so whether they are clipped cannot be told"};
}

}  // namespace ttrace::optimizer
