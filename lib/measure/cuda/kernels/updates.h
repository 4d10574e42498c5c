// Replays updates of an optimizer and judges them, one warp per tile (UpdateRequest): the formula
// of optimizer/update_formula.h, element by element, in the lanes and the order of all other sums.
#pragma once

#include <cstdint>

#include "measure/cuda/kernels/decode.h"
#include "measure/cuda/kernels/execution.h"
#include "measure/cuda/kernels/lanes.h"
#include "measure/cuda/kernels/tiles.h"
#include "measure/cuda/kernels/work.h"
#include "measure/optimizer/update_formula.h"

namespace ttrace::measure::cuda {

// The operations of the formula, for one element.
struct ScalarMath {
  using Number = double;
  using Mask = bool;
  TTRACE_DEVICE static Number root(Number a) { return sqrt(a); }
  TTRACE_DEVICE static Number magnitude(Number a) { return fabs(a); }
  TTRACE_DEVICE static Mask less(Number a, Number b) { return a < b; }
  TTRACE_DEVICE static Mask not_less(Number a, Number b) { return !(a < b); }
  TTRACE_DEVICE static Mask not_at_most(Number a, Number b) { return !(a <= b); }
  TTRACE_DEVICE static Mask both(Mask a, Mask b) { return a && b; }
  TTRACE_DEVICE static Mask either(Mask a, Mask b) { return a || b; }
  TTRACE_DEVICE static Number choose(Mask mask, Number a, Number b) { return mask ? a : b; }
  TTRACE_DEVICE static bool any(Mask mask) { return mask; }
  TTRACE_DEVICE static Number if_positive(Number a, double value) { return a > 0 ? value : 0.0; }
};

template <GradientKind kGradient>
TTRACE_DEVICE Bounded<double> replay_with(const UpdateFormula& f, const UpdateInputs<double>& in) {
  if (f.kind == UpdateKind::kSgd) return sgd_step<ScalarMath, kGradient>(f, in);
  if (f.amsgrad) return adam_step<ScalarMath, kGradient, true>(f, in);
  return adam_step<ScalarMath, kGradient, false>(f, in);
}

// All threads of a launch take the same branches.
TTRACE_DEVICE Bounded<double> replay_element(const UpdateFormula& f,
                                             const UpdateInputs<double>& in) {
  if (f.kind == UpdateKind::kCopy) return {in.parameter, 0};
  switch (f.gradient) {
    case GradientKind::kExact:
      return replay_with<GradientKind::kExact>(f, in);
    case GradientKind::kClipped:
      return replay_with<GradientKind::kClipped>(f, in);
    case GradientKind::kDecayed:
      break;
  }
  return replay_with<GradientKind::kDecayed>(f, in);
}

TTRACE_DEVICE double input_at(const DeviceValues& values, std::uint64_t i) {
  if (values.bits == nullptr) return 0;
  if (values.dtype == tensor::DType::kFloat32) {
    return static_cast<double>(stored_at<float>(values.bits, i)) * values.scale;
  }
  return number_at(values, i);
}

// The results of a lane beside the sums of the pair.
struct LaneUpdates {
  double bound2 = 0;
  std::uint32_t unjudged = 0;
  std::uint32_t outside = 0;
  std::uint32_t unmoved = 0;
  std::uint32_t tiny = 0;
  double largest_replayed = 0;  // where the lane's difference is largest
  double largest_updated = 0;
};

// Products with a bound below this may lose digits.
constexpr double kTinyBound = 0x1p-960;

// Finds the worst element of the tile as a loop over the elements would: each element whose
// difference exceeds the ratio so far times its own bound becomes the worst. 32 neighbours ask at
// once whether there is such an element among them.
struct WorstOfTile {
  UpdateResult& result;

  template <typename Execution>
  TTRACE_DEVICE void add(Execution& execution, std::uint32_t first, std::uint32_t lane, bool judged,
                         double replayed, double updated, double bound) {
    const double difference = fabs(updated - replayed);
    std::uint32_t later = 0xffffffffU;  // lanes after the last worst one
    while (true) {
      const bool worse = judged && (later >> lane & 1U) != 0 && difference > result.ratio * bound;
      const std::uint32_t lanes = execution.ballot(worse);
      if (lanes == 0) return;
      const std::uint32_t which = lowest_bit(lanes);
      const double here = bound > 0 ? difference / bound : same_bits<double>(0x7ffULL << 52);
      result.before = result.ratio;
      result.ratio = execution.from(here, which);
      result.replayed = execution.from(replayed, which);
      result.updated = execution.from(updated, which);
      result.bound = execution.from(bound, which);
      result.at = first + which;
      if (which == kWarp - 1) return;
      later = 0xffffffffU << (which + 1);
    }
  }

  TTRACE_DEVICE static std::uint32_t lowest_bit(std::uint32_t bits) {
    std::uint32_t at = 0;
    while ((bits >> at & 1U) == 0) ++at;
    return at;
  }
};

template <typename Execution>
TTRACE_DEVICE void judge_updates(Execution& execution, const TileLaunch& launch) {
  WarpTile tile;
  if (!find_tile(execution, launch, tile)) return;
  const UpdateFormula& formula = *tile.job->formula;
  const DeviceValues* const inputs = tile.job->inputs;
  LaneSums sums;
  LaneClasses classes;
  LaneUpdates updates;
  UpdateResult judged;
  WorstOfTile worst{judged};
  for (std::uint32_t first = 0; first < tile.count; first += kWarp) {
    const std::uint32_t i = first + tile.lane;
    const std::uint64_t at = tile.first + i;
    double c = 0;
    Bounded<double> replayed{0, 0};
    double parameter = 0;
    const bool there = i < tile.count;
    if (there) {
      c = input_at(inputs[0], at);
      parameter = input_at(inputs[1], at);
      replayed =
          replay_element(formula, {parameter, input_at(inputs[2], at), input_at(inputs[3], at),
                                   input_at(inputs[4], at), input_at(inputs[5], at)});
    }
    const double bound = replayed.error;
    const bool finite = is_finite(replayed.value) && is_finite(c);
    const bool is_judged = there && finite && is_finite(bound);
    if (there && finite) {
      sums.add<false>(i, replayed.value, c);
      if (sums.largest_at == i) {
        updates.largest_replayed = replayed.value;
        updates.largest_updated = c;
      }
    }
    if (there && !finite) classes.add(i, replayed.value, c);
    if (there && finite && !is_judged) ++updates.unjudged;
    if (is_judged) {
      updates.bound2 = updates.bound2 + bound * bound;
      if (fabs(c - replayed.value) > bound) {
        ++updates.outside;
        updates.unmoved += c == parameter ? 1 : 0;
      }
      if (bound > 0 && bound < kTinyBound && c != replayed.value) ++updates.tiny;
    }
    worst.add(execution, first, tile.lane, is_judged, replayed.value, c, bound);
  }
  TileResult pair;
  reduce(execution, sums, pair);
  reduce(execution, classes, pair);
  judged.bound2 = add_lanes(execution, updates.bound2);
  judged.unjudged = add_lanes(execution, updates.unjudged);
  judged.outside = add_lanes(execution, updates.outside);
  judged.unmoved = add_lanes(execution, updates.unmoved);
  judged.tiny = add_lanes(execution, updates.tiny);
  const std::uint32_t owner = execution.from(pair.largest_at, 0) % kWarp;
  const double replayed_at = execution.from(updates.largest_replayed, owner);
  const double updated_at = execution.from(updates.largest_updated, owner);
  if (tile.lane != 0) return;
  if (pair.largest_at != kNowhere) {
    pair.reference_at = replayed_at;
    pair.candidate_at = updated_at;
  }
  TileResult* const results = launch.results + 2 * tile.index;
  results[0] = pair;
  results[1] = same_bits<TileResult>(judged);
}

}  // namespace ttrace::measure::cuda
