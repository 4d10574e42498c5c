// The tolerance of one tensor: how far the candidate may be from the reference, and by which rule.
// Implements the exact rule and the replay rule. The replay rule judges updated parameters and the
// gradient norm, which are recomputed from the run's own inputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "layout/view.h"

namespace ttrace::judge {

enum class Rule {
  kExact,     // integers, bool, and what was stored before the step: every element equal
  kNoise,     // from perturbed runs of the reference
  kFallback,  // from the error theorem, without perturbed runs
  kReplay,    // from the run's own inputs: updated parameters and the gradient norm
};

std::string_view rule_name(Rule rule);

// allowed ‖C - R‖ = multiplier · unit_norm + floor_norm, all absolute.
struct Tolerance {
  Rule rule = Rule::kExact;
  double epsilon = 0;     // the unit in which errors of this tensor are counted
  double multiplier = 0;  // m of the noise rule, k of the fallback, 1 of a replay
  double unit_norm = 0;
  double floor_norm = 0;
  // The share of floor_norm for the rounding error of the reference's own accumulator.
  double own_rounding = 0;
  // The largest norm by which elements on another side of a kink (such as ReLU at 0) than the
  // reference's may have moved a slice. The kink may be in this tensor or in one that it is
  // computed from. floor_norm includes it if the whole tensor is allowed it too.
  double kinks = 0;
  std::string formula;                // "4·noise + 2·ε", for people
  std::optional<std::size_t> policy;  // index of the rule of the tolerance file that changed it

  double allowed_norm() const { return multiplier * unit_norm + floor_norm; }
};

// The name of the rule in the JSON report: "policy:2", or rule_name(), with "_and_sum" if the
// rounding error of the reference's own sum is allowed on top, "_and_kinks" if kinks are.
std::string rule_text(const Tolerance& tolerance);

// The smallest multiplier with which `difference_norm` would pass: 0 if the floor alone allows it,
// infinite if no multiplier is enough.
double passing_multiplier(const Tolerance& tolerance, double difference_norm);

// The ε of the coarsest precision in which either tensor is stored or was computed; 0 for integers.
// Source: lib/judge/README.md, "computed in, not stored in".
double shared_epsilon(const layout::View& reference, const layout::View& candidate);

// The spacing of representable numbers near 0, from the stored types and scales; the larger of both
// sides. For a sum of several tensors it is the sum of their spacings.
double shared_quantum(const layout::View& reference, const layout::View& candidate);

// The spacing near 0 of the numbers that the tensor was computed from, at least that of the stored
// ones: 2^-24, times the scale, of a float32 tensor that was computed in fp16. Every other type
// that jobs compute in has the exponents of float32, and a spacing of 2^-133 at most.
double computed_quantum(const layout::View& view);

// The largest allowed distance between replicas of a tensor, as a norm. Parameters and everything
// from which they are updated have the same bits on every healthy replica, so they may differ by at
// most 1 % of the norm: a bug that clips by different norms moves them by 4 %, where bf16
// allows 10.8 %.
double allowed_between_replicas(trace::Kind kind, double allowed_norm, double reference_norm);

// Adds the rounding error of the reference's own accumulator, `norm`, to the allowed error.
void allow_own_rounding(double norm, Tolerance& tolerance);

// Adds `norm` to the allowed error: what storing one number in a narrower type rounds.
void allow_storage(double norm, Tolerance& tolerance);

// Adds `norm` to the allowed error: how far elements on another side of a kink than the reference's
// may have moved the tensor.
void allow_kinks(double norm, Tolerance& tolerance);

// `rounded`: the sides store other types, so that one holds the other's values rounded.
Tolerance exact_tolerance(bool rounded = false);

// Bounds |computed - exact| / exact of the norm of `elements` numbers whose squares are added up
// sequentially in each of eight lanes, as vectorized CPU code does, with unit roundoff u (2^-24 for
// single precision): u·(4 + elements / 32).
//
// Derivation: the k-th addition of a lane of m = elements / 8 squares rounds by at most u·S·k/m,
// where S is the sum of the lane, so the lane is off by at most u·S·m/2, and the root by half of
// that. The 4 covers the squares, the sum over lanes, the root and its storage.
//
// Measured with torch 2.13 on a CPU (16 lanes; vector_norm, _foreach_norm and their shards give the
// same), error in u, largest of normal, heavy-tailed, log-normal and constant values:
//   elements   10^4   10^5    10^6     10^7     3.9·10^7   10^8
//   measured   91     1,058   10,801   72,373   390,794    600,442
//   bound      317    3,129   31,254   312,504  1,206,172  3,125,004
// Normal values lose at most a tenth of that. Pairwise sums (torch's `sum` and `mean`, GPUs) lose 8
// u at any size.
double norm_rounding(std::uint64_t elements, double unit_roundoff);

// The largest relative error of a recorded norm that counts as rounding, for any number of
// elements.
inline constexpr double kMostNormRounding = 0.01;

// The result of replaying the optimizer for one parameter. Every element has its own bound. C is
// the candidate's parameter, Q the replayed one.
struct ReplayFacts {
  double difference_norm = 0;  // ‖C - Q‖
  double bound_norm = 0;       // ‖bound‖
  double worst_ratio = 0;      // max |C - Q| / bound
  std::string optimizer;       // "adamw"
};

// Expresses the bounds of all elements as one tolerance: allowed = ‖C - Q‖ / worst_ratio, or
// ‖bound‖ if C equals Q. ‖C - Q‖ is allowed exactly if every element is within its bound, and the
// smallest multiplier that passes is the worst ratio.
Tolerance replay_tolerance(const ReplayFacts& facts, double epsilon);

}  // namespace ttrace::judge
