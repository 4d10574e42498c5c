#include "judge/outcome.h"

#include <cmath>

#include "base/text.h"

namespace ttrace::judge {
namespace {

bool sums_overflowed(const measure::TileStats& stats) {
  return !std::isfinite(stats.sum_d2) || !std::isfinite(stats.sum_r2) ||
         !std::isfinite(stats.sum_c2);
}

std::string describe_unequal(const measure::TileStats& stats) {
  return base::concat(stats.unequal, " of ", stats.elements, " differ");
}

}  // namespace

std::string_view outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kMatch:
      return "match";
    case Outcome::kDiverged:
      return "diverged";
    case Outcome::kBelowNoiseFloor:
      return "below_noise_floor";
    case Outcome::kReplicaConflict:
      return "replica_conflict";
    case Outcome::kMissing:
      return "missing";
    case Outcome::kExtra:
      return "extra";
    case Outcome::kIncomparable:
      return "incomparable";
    case Outcome::kUnreadable:
      return "unreadable";
    case Outcome::kSkippedByRule:
      return "skipped_by_rule";
    case Outcome::kRoutingFlip:
      return "routing_flip";
    case Outcome::kAfterRoutingFlip:
      return "after_routing_flip";
    case Outcome::kNotJudged:
      return "not_judged";
    case Outcome::kNotRecorded:
      return "not_recorded";
  }
  return "";
}

bool is_bad(Outcome outcome) {
  return outcome == Outcome::kDiverged || outcome == Outcome::kReplicaConflict ||
         outcome == Outcome::kIncomparable || is_one_sided(outcome);
}

bool is_one_sided(Outcome outcome) {
  return outcome == Outcome::kMissing || outcome == Outcome::kExtra;
}

Judgement judge(trace::Kind kind, const measure::Measurement& measurement,
                const Tolerance& tolerance, bool exact, const SliceJudgement& slices) {
  const measure::TileStats& stats = measurement.total;
  const double allowed = exact ? 0 : tolerance.allowed_norm();
  // Replicas first: if they differ, it is undefined which of them was compared.
  if (measurement.replicas_differ &&
      !(measurement.replicas->distance_norm <=
        allowed_between_replicas(kind, allowed, measure::reference_norm(stats)))) {
    return {Outcome::kReplicaConflict, "copies that should be equal differ"};
  }
  if (stats.nonfinite_different > 0) {
    return {Outcome::kDiverged, base::concat(base::plural(stats.nonfinite_different, "element"),
                                             " not finite on one side or differently so")};
  }
  if (exact) {
    if (stats.unequal == 0) return {Outcome::kMatch, ""};
    return {Outcome::kDiverged, describe_unequal(stats)};
  }
  if (stats.elements > 0 && stats.finite == 0) {
    return {Outcome::kNotJudged, "no element is finite"};
  }
  if (sums_overflowed(stats)) {
    return {Outcome::kNotJudged, "the squares of its values overflow binary64"};
  }
  // Written so that NaN diverges.
  if (!(measure::difference_norm(stats) <= allowed)) {
    if (tolerance.rule != Rule::kExact) return {Outcome::kDiverged, ""};
    return {Outcome::kDiverged, describe_unequal(stats)};
  }
  if (slices.beyond > 0 && slices.found.front().what == Slice::What::kScale) {
    return {Outcome::kDiverged, base::concat("its values are within their tolerance, but ",
                                             slices.beyond == 1 ? "a scale" : "scales",
                                             " of it or of its parts beyond what rounding makes")};
  }
  if (slices.beyond > 0) {
    return {Outcome::kDiverged, base::concat("as a whole within its tolerance, but ",
                                             base::plural(slices.beyond, "part"),
                                             " of it beyond that of the same elements")};
  }
  const double norm = measure::reference_norm(stats);
  // Equal bits match under any tolerance, except zeros, which may be what is left of a lost tensor.
  if (stats.unequal == 0 && norm > 0) return {Outcome::kMatch, ""};
  // An infinite tolerance (a noise run that is not finite) checks nothing, not even a tensor of
  // zeros.
  if (std::isinf(allowed) || (norm > 0 && allowed >= norm)) {
    return {Outcome::kBelowNoiseFloor, "its tolerance is wider than the tensor itself"};
  }
  return {Outcome::kMatch, ""};
}

}  // namespace ttrace::judge
