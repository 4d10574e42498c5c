// A tensor of a run, judged by what it was computed from: what `ttrace audit` says of every tensor,
// and `ttrace localize` of those of a failing module.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "answer/finding.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"
#include "trace/key.h"

namespace ttrace::answer {

enum class CheckResult {
  kConsistent,
  kInconsistent,
  kNotReplayable,
  kBelowBound,  // what may be rounding is as large as the value itself: any value would hold
};

// "consistent", "inconsistent", "not_replayable", "below_bound": names in the JSON reports.
std::string_view check_result_name(CheckResult result);

// One thing that must hold of a tensor by its own run.
struct AuditCheck {
  // What it is held against: "replicas", "finite values", "identity", "expression", "sum of raw
  // gradients", "gradient norm", "optimizer step", "master", "moments", "groups", "previous step",
  // "common number".
  std::string operation;
  CheckResult result = CheckResult::kConsistent;
  std::string expected;  // for people: "matmul of grad_output fc1 and input fc1"; or empty
  double error = 0;      // ‖recorded - expected‖ / ‖expected‖
  double bound = 0;      // the largest error that is rounding, in the same unit
  double expected_norm = 0;
  double allowed = 0;  // bound · ‖expected‖, also where nothing is expected
  std::string reason;  // why it does not hold or cannot be replayed; or empty
  bool by_probes = false;
  bool overflow = false;             // what is not finite grew too large for its type
  std::string rows;                  // which rows stand out, or empty
  std::vector<std::uint64_t> ranks;  // that hold them; empty if none stand out

  // error / bound; infinite where no error is allowed and there is one.
  double share() const;
  // A check that holds only because its bound is as large as what it judges has judged nothing,
  // unless the value is as expected to the bit: makes it kBelowBound, with the reason.
  void require_bound(bool equal_bits);
};

// Why a tensor that is below its bound is not judged.
inline constexpr std::string_view kBelowBoundReason =
    "what may be rounding is as large as its value";

enum class AuditOutcome {
  kHolds,       // it follows from what it was computed from
  kBroken,      // a check does not hold
  kNotJudged,   // it could not be replayed
  kGiven,       // it follows from nothing in the step: a parameter, a buffer, the batch
  kBelowBound,  // its bound is as large as its value
  // A gradient whose terms cancel, such as that of a key's bias: below its bound, and small against
  // the gradient of its module's weight.
  kZeroWithinRounding,
};

// "holds", "broken", "not_judged", "given", "below_bound", "zero_within_rounding": names in the
// JSON report.
std::string_view audit_outcome_name(AuditOutcome outcome);

// One tensor of the run.
struct AuditedTensor {
  trace::TensorKey key;
  tensor::DType dtype = tensor::DType::kFloat32;
  tensor::Shape shape;
  std::optional<double> norm;  // of what is recorded, of its finite elements; if it could be read
  AuditOutcome outcome = AuditOutcome::kNotJudged;
  std::vector<AuditCheck> checks;
  std::string reason;        // why it was not judged, or empty
  bool unreadable = false;   // a shard of it cannot be read
  bool left_undone = false;  // the audit was interrupted before it, or its part is missing
  // Elements that are NaN or +infinity, as is what they were computed from. A mask makes -infinity.
  std::uint64_t endless = 0;
  bool narrow_factors = false;  // its bound has room for factors that a GPU rounded to TF32
  bool overflowed = false;      // not finite in a step that a GradScaler skipped: mark_overflows()
  // The tensor that it follows from and that the trace lacks, if that is the reason.
  std::optional<trace::TensorKey> lacks;
  std::vector<Cause> causes;
  std::vector<RejectedCause> rejected;  // tried and not named, the nearest first
  std::string class_name;               // of its module, or empty
  std::string called_at;
  // Recorded tensors that it was computed from, as far as a check says so: all whose faults travel,
  // or enough of them to have every such fault.
  std::vector<trace::TensorKey> follows_from;
  // A tensor that it was computed from explains why it is broken: mark_downstream().
  bool downstream = false;

  // The first check that does not hold; null if all hold.
  const AuditCheck* broken_check() const;
  // A check that says what the value must be holds, or does not.
  bool judged() const {
    return outcome == AuditOutcome::kHolds || outcome == AuditOutcome::kBroken;
  }
};

// Whether a check says what the value must be. The others hold of any value.
bool judges_value(const AuditCheck& check);

}  // namespace ttrace::answer
