// The tolerance of one tensor: how far the candidate may be from the reference, and by which rule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "layout/view.h"

namespace ttrace::judge {

enum class Rule {
  kExact,     // integers and bool: every element equal
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
  std::string formula;                // "4·noise + 2·ε", for people
  std::optional<std::size_t> policy;  // index of the rule of the tolerance file that changed it

  double allowed_norm() const { return multiplier * unit_norm + floor_norm; }
};

// The name of the rule in the JSON report: "policy:2", or rule_name(), with "_and_sum" if the
// rounding error of the reference's own sum is allowed on top.
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

// The largest allowed distance between replicas of a tensor, as a norm. Parameters and everything
// from which they are updated have the same bits on every healthy replica, so they may differ by at
// most 1 % of the norm: a bug that clips by different norms moves them by 4 %, where bf16
// allows 10.8 %.
double allowed_between_replicas(trace::Kind kind, double allowed_norm, double reference_norm);

Tolerance exact_tolerance();

// Allows `norm` on top, the rounding error of the reference's own accumulator.
void allow_own_rounding(double norm, Tolerance& tolerance);

}  // namespace ttrace::judge
