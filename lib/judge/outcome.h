// What became of one tensor. Every tensor of both traces gets exactly one.
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
  kReplicaConflict,  // copies that should be equal differ by more than the tolerance
  kMissing,          // in the reference only
  kExtra,            // in the candidate only
  kIncomparable,     // shapes or element types that cannot be held against each other
  kUnreadable,
  kSkippedByRule,
  kRoutingFlip,       // a router's choice: other experts for some tokens, each near a tie
  kAfterRoutingFlip,  // beyond its tolerance, and computed from such tokens: not judged
  kNotJudged,         // nothing tells how far it may be off; the reason says what would
  kNotRecorded,       // one of the traces was told to leave it out
};

inline constexpr std::array kAllOutcomes{
    Outcome::kMatch,           Outcome::kDiverged,         Outcome::kBelowNoiseFloor,
    Outcome::kReplicaConflict, Outcome::kMissing,          Outcome::kExtra,
    Outcome::kIncomparable,    Outcome::kUnreadable,       Outcome::kSkippedByRule,
    Outcome::kRoutingFlip,     Outcome::kAfterRoutingFlip, Outcome::kNotJudged,
    Outcome::kNotRecorded};

std::string_view outcome_name(Outcome outcome);

// Diverged, in replica conflict, of another shape or class of type, missing or extra: what a
// finding is made of.
bool is_bad(Outcome outcome);
// In one of the traces only.
bool is_one_sided(Outcome outcome);

struct Judgement {
  Outcome outcome = Outcome::kMatch;
  std::string reason;  // for people, where the outcome alone does not tell
};

// `exact`: both tensors are of integer or bool type. `slices`: what became of the tensor's parts.
Judgement judge(trace::Kind kind, const measure::Measurement& measurement,
                const Tolerance& tolerance, bool exact, const SliceJudgement& slices = {});

}  // namespace ttrace::judge
