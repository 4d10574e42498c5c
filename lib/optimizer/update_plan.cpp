#include "optimizer/update_plan.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/text.h"
#include "measure/optimizer/hyperparameters.h"
#include "measure/optimizer/step.h"
#include "optimizer/gradient_norm.h"
#include "optimizer/replay_updates.h"
#include "optimizer/settings.h"
#include "optimizer/update_rounding.h"

namespace ttrace::optimizer {
namespace {

using measure::Algorithm;
using measure::Hyperparameters;
using tensor::DType;
using trace::TensorEntry;

// Operands besides the updated parameter, in the order of UpdateLeaf::operands.
enum Operand { kParameter, kGradient, kMomentumBuffer, kExpAvg, kExpAvgSq, kMaxExpAvgSq };
constexpr std::size_t kOperands = 6;

struct StateRule {
  Operand operand;
  const char* name;
  bool wanted;
};

std::array<StateRule, 4> states_of(const Hyperparameters& h) {
  const bool adam = h.algorithm == Algorithm::kAdam || h.algorithm == Algorithm::kAdamW;
  return {{{kMomentumBuffer, "momentum_buffer", h.algorithm == Algorithm::kSgd && h.momentum != 0},
           {kExpAvg, "exp_avg", adam},
           {kExpAvgSq, "exp_avg_sq", adam},
           {kMaxExpAvgSq, "max_exp_avg_sq", adam && h.amsgrad}}};
}

bool adds_up(const layout::View& view) {
  if (std::holds_alternative<layout::Sum>(view.how)) return true;
  if (const auto* mosaic = std::get_if<layout::Mosaic>(&view.how)) {
    return std::any_of(mosaic->tiles.begin(), mosaic->tiles.end(),
                       [](const auto& tile) { return adds_up(*tile.source); });
  }
  if (const auto* transposed = std::get_if<layout::Transposed>(&view.how)) {
    return adds_up(*transposed->source);
  }
  return false;
}

// The number of ranks whose terms add up to the tensor.
double terms_of(const TensorEntry& entry, const trace::Manifest& manifest) {
  double terms = 1;
  for (const trace::MeshAxis& axis : manifest.meshes.at(entry.mesh).axes) {
    const auto placement = entry.placements.find(axis.name);
    if (placement == entry.placements.end()) continue;
    if (std::holds_alternative<trace::Partial>(placement->second)) {
      terms *= static_cast<double>(axis.size);
    }
  }
  return terms;
}

// How one stored tensor was updated.
struct UpdateLeaf {
  std::array<const TensorEntry*, kOperands> operands{};
  measure::UpdateStep step;
  std::string difference;
  std::string problem;
  bool unreadable = false;

  bool alike(const UpdateLeaf& other) const {
    for (std::size_t i = 0; i < kOperands; ++i) {
      if ((operands[i] == nullptr) != (other.operands[i] == nullptr)) return false;
    }
    const Hyperparameters& a = step.hyperparameters;
    const Hyperparameters& b = other.step.hyperparameters;
    return a.algorithm == b.algorithm && a.updates == b.updates &&
           measure::first_difference(a, b).empty() && step.rounding == other.step.rounding &&
           step.clip == other.step.clip;
  }
};

// A tensor of zeros that no rank holds.
class ZeroReader : public measure::TensorReader {
 public:
  void read(const tensor::Box&, std::span<double> out) override { std::ranges::fill(out, 0.0); }
  void read_integers(const tensor::Box&, std::span<std::int64_t> out) override {
    std::ranges::fill(out, std::int64_t{0});
  }
  std::vector<measure::RankBoxes> rank_boxes() const override { return {}; }
  std::optional<measure::ElementPlace> locate(const tensor::Shape&) const override {
    return std::nullopt;
  }
  void for_each_check(const measure::VisitCheck&) const override {}
  std::uint64_t bytes_read() const override { return 0; }
};

class UpdatePlanner {
 public:
  enum class Gradients { kRecorded, kZero };

  // Both sources must outlive the planner.
  UpdatePlanner(const trace::Source& reference, const trace::Source& candidate,
                const std::vector<comparison::TensorComparison>& results,
                IsRewritten is_rewritten = nullptr, Gradients gradients = Gradients::kRecorded)
      : candidate_(candidate),
        reference_(reference.manifest()),
        references_(reference_),
        candidates_(candidate.manifest()),
        clipping_(candidate, results),
        is_rewritten_(std::move(is_rewritten)),
        zero_gradients_(gradients == Gradients::kZero) {}

  // `pair` is a `param_after_step`, made of any stored ones (a map may have renamed, joined or cut
  // them).
  UpdatePlan plan(const comparison::Pair& pair) {
    UpdatePlan plan;
    if (adds_up(*pair.candidate)) {
      plan.problem = "it is the sum of several tensors";
      return plan;
    }
    if (is_rewritten(pair)) {
      plan.problem = "it is changed by hand";
      return plan;
    }
    if (only_candidate_has_gradient(pair)) {
      plan.problem = "the reference has no gradient of it";
      return plan;
    }
    const std::optional<Hyperparameters> reference = reference_of(pair);
    std::map<const TensorEntry*, UpdateLeaf> leaves;
    const std::vector<const TensorEntry*> stored = layout::stored_in(*pair.candidate);
    for (const TensorEntry* after : stored) {
      const UpdateLeaf& leaf = leaves.emplace(after, leaf_of(*after, reference)).first->second;
      if (leaf.problem.empty() && !leaf.alike(leaves.at(stored.front()))) {
        plan.problem = "its parts are updated in different ways";
      } else {
        plan.problem = leaf.problem;
        plan.unreadable = leaf.unreadable;
      }
      if (!plan.problem.empty()) return plan;
    }
    const UpdateLeaf& first = leaves.at(stored.front());
    plan.step = first.step;
    plan.difference = first.difference;
    plan.tensors.after = {&candidate_, pair.candidate};
    // The same view over the parameters' gradients, over their states, ...
    const auto over = [&](Operand operand) {
      if (first.operands[operand] == nullptr) return measure::TensorRef{};
      return measure::TensorRef(&candidate_,
                                layout::with_entries(pair.candidate, [&](const TensorEntry& after) {
                                  return *leaves.at(&after).operands[operand];
                                }));
    };
    plan.tensors.parameter = over(kParameter);
    plan.tensors.gradient = over(kGradient);
    if (zero_gradients_) {
      plan.tensors.gradient.opener = [](measure::Replicas) {
        return std::make_unique<ZeroReader>();
      };
    }
    plan.tensors.momentum_buffer = over(kMomentumBuffer);
    plan.tensors.exp_avg = over(kExpAvg);
    plan.tensors.exp_avg_sq = over(kExpAvgSq);
    plan.tensors.max_exp_avg_sq = over(kMaxExpAvgSq);
    return plan;
  }

 private:
  bool is_rewritten(const comparison::Pair& pair) const {
    if (!is_rewritten_) return false;
    return std::ranges::any_of(layout::stored_in(*pair.reference), [this](const auto* entry) {
      return is_rewritten_(entry->key.step, entry->key.name);
    });
  }

  std::optional<Hyperparameters> reference_of(const comparison::Pair& pair) const {
    const trace::TensorKey& key = layout::stored_in(*pair.reference).front()->key;
    const OptimizerIndex::Found found = references_.find(key.step, key.name);
    if (found.group == nullptr || found.twice) return std::nullopt;
    return measure::read_hyperparameters(*found.group).values;
  }

  // What the reference left alone, as it would a frozen parameter, is not to be moved by a replay.
  bool only_candidate_has_gradient(const comparison::Pair& pair) const {
    trace::TensorKey key = layout::stored_in(*pair.reference).front()->key;
    if (!references_.knows_step(key.step)) return false;
    key.kind = trace::Kind::kMainGrad;
    trace::TensorKey own = layout::stored_in(*pair.candidate).front()->key;
    own.kind = trace::Kind::kMainGrad;
    return candidates_.tensor(own) != nullptr && references_.tensor(key) == nullptr &&
           trace::was_asked_for(reference_, key) != false &&
           trace::incomplete_of(reference_, key) == nullptr;
  }

  UpdateLeaf leaf_of(const TensorEntry& after, const std::optional<Hyperparameters>& reference) {
    UpdateLeaf leaf;
    const auto fail = [&leaf](std::string why) {
      leaf.problem = std::move(why);
      return leaf;
    };
    trace::TensorKey key = after.key;
    if (!candidates_.knows_step(key.step)) return fail("the manifest has no optimizer entry");
    key.kind = trace::Kind::kParam;
    const TensorEntry* parameter = candidates_.tensor(key);
    if (parameter == nullptr) return fail("the parameter before the step was not recorded");
    key.kind = trace::Kind::kMainGrad;
    const TensorEntry* gradient = candidates_.tensor(key);
    const OptimizerIndex::Found found = candidates_.find(key.step, key.name);
    if (found.twice) return fail("the parameter is in two parameter groups");

    Hyperparameters& h = leaf.step.hyperparameters;
    if (found.group == nullptr) {
      if (gradient != nullptr) return fail("no parameter group of the manifest has the parameter");
      if (reference) return fail("only the reference has the parameter in a parameter group");
    } else {
      measure::ReadHyperparameters read = measure::read_hyperparameters(*found.group);
      if (!read.values) return fail(std::move(read.problem));
      if (gradient == nullptr && zero_gradients_) gradient = parameter;  // its shape and type
      if (gradient == nullptr) return fail("the main gradient was not recorded");
      // The sum of two terms is rounded once, relative to itself. That of more may lose any part of
      // itself where terms cancel.
      if (terms_of(*gradient, candidate_.manifest()) > 2) {
        return fail("the main gradient was recorded before its reduction");
      }
      h = *read.values;
      if (reference) leaf.difference = measure::first_difference(h, *reference);
      if (!leaf.difference.empty()) h = *reference;
      leaf.operands[kGradient] = gradient;
    }
    leaf.operands[kParameter] = parameter;

    const TensorEntry* main = candidates_.state(key, "main_param");
    if (main != nullptr && h.algorithm != Algorithm::kNone) leaf.operands[kParameter] = main;
    std::size_t wanted = 0;
    std::size_t there = 0;
    for (const StateRule& rule : states_of(h)) {
      if (!rule.wanted) continue;
      ++wanted;
      leaf.operands[rule.operand] = candidates_.state(key, rule.name);
      there += leaf.operands[rule.operand] != nullptr ? 1 : 0;
    }
    // Without gradients before this step, there is no state, or one of zeros.
    if (there != wanted && (there != 0 || (h.updates > 1 && !zero_gradients_))) {
      return fail("the optimizer's state was not recorded");
    }
    for (const TensorEntry* operand : leaf.operands) {
      if (operand == nullptr) continue;
      if (operand->shape != after.shape) return fail("its gradient or state has another shape");
    }

    Clip clip;
    if (h.clip_norm && !zero_gradients_) {
      clip = clipping_.of(key.step, h.clipped_by, *h.clip_norm);
      leaf.unreadable = clip.unreadable;
      if (!clip.problem.empty()) return fail(std::move(clip.problem));
    }
    leaf.step.clip = clip.factor;
    std::vector<const TensorEntry*> states;
    for (std::size_t i = kMomentumBuffer; i < kOperands; ++i) {
      if (leaf.operands[i] != nullptr) states.push_back(leaf.operands[i]);
    }
    const auto rounding = update_rounding(
        h, {&after, leaf.operands[kParameter], leaf.operands[kGradient], states}, clip);
    if (!rounding) return fail("its precision is none that an optimizer is replayed in");
    leaf.step.rounding = *rounding;
    const TensorEntry* consumed = leaf.operands[kGradient];
    if (consumed != nullptr && terms_of(*consumed, candidate_.manifest()) > 1) {
      leaf.step.rounding.gradient += *measure::unit_roundoff(consumed->dtype);
    }
    return leaf;
  }

  const trace::Source& candidate_;
  const trace::Manifest& reference_;
  OptimizerIndex references_;
  OptimizerIndex candidates_;
  Clipping clipping_;
  IsRewritten is_rewritten_;  // by the reference's names; may be empty
  bool zero_gradients_;
};

}  // namespace

IsRewritten rewritten_in(const trace::Manifest& manifest) {
  return [&manifest](std::uint64_t step, const std::string& parameter) {
    const auto found = manifest.run.rewritten.find(step);
    return found != manifest.run.rewritten.end() && found->second.contains(parameter);
  };
}

bool is_measured_update(const comparison::TensorComparison& result) {
  return result.key.kind == trace::Kind::kParamAfterStep && result.comparison && !result.exact;
}

std::vector<UpdatePlan> plan_with_zero_gradients(
    const trace::Source& run, const std::vector<const trace::TensorEntry*>& updated) {
  if (updated.empty()) return {};
  UpdatePlanner planner(run, run, {}, nullptr, UpdatePlanner::Gradients::kZero);
  std::vector<UpdatePlan> plans;
  for (const TensorEntry* entry : updated) {
    comparison::Pair pair;
    pair.key = entry->key;
    pair.reference = layout::view_of(*entry);
    pair.candidate = pair.reference;
    plans.push_back(planner.plan(pair));
  }
  return plans;
}

std::map<std::size_t, UpdatePlan> plan_by_own_settings(
    const trace::Source& candidate, const std::vector<comparison::TensorComparison>& results,
    const std::vector<std::size_t>& which) {
  if (which.empty()) return {};
  UpdatePlanner planner(candidate, candidate, {});
  std::map<std::size_t, UpdatePlan> plans;
  for (const std::size_t i : which) {
    comparison::Pair pair;
    pair.key = results[i].key;
    pair.reference = results[i].candidate;
    pair.candidate = results[i].candidate;
    plans.emplace(i, planner.plan(pair));
  }
  return plans;
}

std::map<std::size_t, UpdatePlan> plan_replays(
    const trace::Source& reference, const trace::Source& candidate, const IsRewritten& is_rewritten,
    const std::vector<comparison::TensorComparison>& results) {
  // The planner's indices of a million tensors take a second.
  if (std::none_of(results.begin(), results.end(), is_measured_update)) return {};
  UpdatePlanner planner(reference, candidate, results, is_rewritten);
  std::map<std::size_t, UpdatePlan> plans;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (is_measured_update(results[i])) plans.emplace(i, planner.plan(results[i]));
  }
  return plans;
}

}  // namespace ttrace::optimizer
