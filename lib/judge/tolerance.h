// How far a candidate may be from its reference: one number per tensor, and where it came from.
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
  kNoise,     // from disturbed reference runs
  kFallback,  // from the error theorem, where there are none
  kReplay,    // of an updated parameter: from the optimizer's own arithmetic
};

std::string_view rule_name(Rule rule);

// allowed ‖C - R‖ = multiplier · unit_norm + floor_norm, all absolute.
struct Tolerance {
  Rule rule = Rule::kExact;
  double epsilon = 0;     // in which this tensor's errors are counted
  double multiplier = 0;  // m of the noise rule, k of the fallback, 1 of a replay
  double unit_norm = 0;
  double floor_norm = 0;
  // Of floor_norm, what the reference's own accumulator rounded away.
  double own_rounding = 0;
  std::string formula;                // "4·noise + 2·ε", for people
  std::optional<std::size_t> policy;  // the rule of the tolerance file that changed it

  double allowed_norm() const { return multiplier * unit_norm + floor_norm; }
};

// "policy:2", or the name of the rule, with "_and_sum" where the reference's own rounding of a sum
// is allowed too: what the JSON report calls it.
std::string rule_text(const Tolerance& tolerance);

// The smallest multiplier with which `difference_norm` would pass: 0 if the floor alone allows it,
// infinite if no multiplier does.
double passing_multiplier(const Tolerance& tolerance, double difference_norm);

// The coarsest precision among what both tensors are stored and were computed in; 0 for integers.
// Source: lib/judge/README.md, correction "computed in, not stored in".
double shared_epsilon(const layout::View& reference, const layout::View& candidate);

// How far apart the numbers near 0 are that either tensor's elements can be, by their stored types
// and scales: the larger of both. A sum of several tensors has the sum of their spacings.
double shared_quantum(const layout::View& reference, const layout::View& candidate);

// What copies of a tensor may be apart, as a norm. Parameters, what they are updated from and what
// they become are the same bits on every replica, so a tolerance wider than 1 % says nothing of
// them: a bug that clips by different norms moved them 4 %, where bf16 allowed 10.8 %.
double allowed_between_replicas(trace::Kind kind, double allowed_norm, double reference_norm);

Tolerance exact_tolerance();

// Allows the candidate what the reference's own accumulator rounded away on top, as a norm.
void allow_own_rounding(double norm, Tolerance& tolerance);

}  // namespace ttrace::judge
