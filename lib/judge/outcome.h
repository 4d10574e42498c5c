// The outcome of judging one tensor. Every tensor of both traces has exactly one.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "judge/slices.h"
#include "judge/tolerance.h"
#include "measure/measure.h"

namespace ttrace::judge {

enum class Outcome {
  kMatch,
  kDiverged,
  kBelowNoiseFloor,  // within a tolerance so wide that zeros would have passed too
  kReplicaConflict,  // replicas that should be equal differ by more than the tolerance
  kMissing,          // in the reference only
  kExtra,            // in the candidate only
  kIncomparable,     // shapes or element types that cannot be compared
  kUnreadable,
  kSkippedByRule,
  kRoutingFlip,       // a router chose other experts for some tokens, each near a tie
  kAfterRoutingFlip,  // beyond its tolerance, but computed from such tokens: not judged
  kNotJudged,         // no tolerance is known for it; the reason says what would give one
  kNotRecorded,       // one of the traces was configured to leave it out
};

inline constexpr std::array kAllOutcomes{
    Outcome::kMatch,           Outcome::kDiverged,         Outcome::kBelowNoiseFloor,
    Outcome::kReplicaConflict, Outcome::kMissing,          Outcome::kExtra,
    Outcome::kIncomparable,    Outcome::kUnreadable,       Outcome::kSkippedByRule,
    Outcome::kRoutingFlip,     Outcome::kAfterRoutingFlip, Outcome::kNotJudged,
    Outcome::kNotRecorded};

std::string_view outcome_name(Outcome outcome);

// Whether a tensor with this outcome becomes a finding: diverged, in replica conflict,
// incomparable, missing or extra.
bool is_bad(Outcome outcome);
// Whether the tensor is in one of the traces only.
bool is_one_sided(Outcome outcome);

struct Judgement {
  Outcome outcome = Outcome::kMatch;
  std::string reason;  // for people, where the outcome alone does not explain it
};

// Judges one tensor. `exact`: both sides are of integer or bool type. `slices`: from
// judge_slices().
Judgement judge(trace::Kind kind, const measure::Measurement& measurement,
                const Tolerance& tolerance, bool exact, const SliceJudgement& slices = {});

}  // namespace ttrace::judge
