// The answer of `ttrace audit` as data: every tensor of a run, judged by what it was computed from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comparison/result.h"
#include "tensor/dtype.h"
#include "trace/key.h"
#include "trace/manifest.h"

namespace ttrace::replay {

// "layers.0.norm1" of "layers.0.norm1.weight" (a parameter) and of "layers.0.norm1[1]" (a value).
std::string module_of(const trace::TensorKey& key);

enum class CheckResult { kConsistent, kInconsistent, kNotReplayable };

// "consistent", "inconsistent", "not_replayable": names in the JSON reports.
std::string_view check_result_name(CheckResult result);

// One thing that must hold of a tensor by its own run.
struct AuditCheck {
  // What it is held against: "replicas", "finite values", "identity", "expression", "sum of raw
  // gradients", "gradient norm", "optimizer step", "previous step".
  std::string operation;
  CheckResult result = CheckResult::kConsistent;
  std::string expected;  // for people: "matmul of grad_output fc1 and input fc1"; or empty
  double error = 0;      // ‖recorded - expected‖ / ‖expected‖
  double bound = 0;      // the largest error that is rounding, in the same unit
  double expected_norm = 0;
  std::string reason;  // why it does not hold or cannot be replayed; or empty
  bool by_probes = false;
  std::string rows;                  // which rows stand out, or empty
  std::vector<std::uint64_t> ranks;  // that hold them; empty if none stand out

  // error / bound; infinite where no error is allowed and there is one.
  double share() const;
};

enum class AuditOutcome {
  kHolds,      // it follows from what it was computed from
  kBroken,     // a check does not hold
  kNotJudged,  // it could not be replayed
  kGiven,      // it follows from nothing in the step: a parameter, a buffer, the batch
};

// "holds", "broken", "not_judged", "given": names in the JSON report.
std::string_view audit_outcome_name(AuditOutcome outcome);

// One tensor of the run.
struct AuditedTensor {
  trace::TensorKey key;
  tensor::DType dtype = tensor::DType::kFloat32;
  tensor::Shape shape;
  AuditOutcome outcome = AuditOutcome::kNotJudged;
  std::vector<AuditCheck> checks;
  std::string reason;       // why it was not judged, or empty
  bool unreadable = false;  // a shard of it cannot be read
  // The tensor that it follows from and that the trace lacks, if that is the reason.
  std::optional<trace::TensorKey> lacks;
  std::vector<comparison::Cause> causes;
  std::vector<comparison::RejectedCause> rejected;  // tried and not named, the nearest first
  std::string class_name;                           // of its module, or empty
  std::string called_at;
  // The recorded tensors that it was computed from, as far as a check says so.
  std::vector<trace::TensorKey> follows_from;
  // A tensor that it was computed from explains why it is broken: mark_downstream().
  bool downstream = false;

  // The first check that does not hold; null if all hold.
  const AuditCheck* broken_check() const;
};

// Marks the broken tensors that tensors they were computed from explain: whose replicas differ, or
// that are not finite, as is true of one of these, or that do not follow from one whose replicas
// differ.
void mark_downstream(std::vector<AuditedTensor>& tensors);

// Sets the outcome from the checks; a given tensor stays given unless a check judges it.
void settle_outcome(AuditedTensor& tensor);

// Tensors that break the same check, of one kind and name pattern.
struct AuditFinding {
  std::size_t shown = 0;  // index of the tensor that stands for them: the first of the step
  std::vector<std::size_t> members;
  std::string title;  // "param_grad of 3 parameters (layers.*.fc1.weight)"
};

struct AuditCoverage {
  std::uint64_t judged = 0;                         // hold or are broken
  std::uint64_t tensors = 0;                        // without those that are given
  std::map<std::string, std::uint64_t> not_judged;  // by reason
  std::string record_next;  // settings of the collector that record what is lacking, or empty
};

struct AuditSharpness {
  double worst_share = 0;            // of a tensor that holds
  std::optional<std::size_t> worst;  // that tensor
  // The bound of nine of ten gradients that hold is at most this: a factor of 1 + this in them
  // would show. Nothing if there is none.
  std::optional<double> gradient;
};

enum class AuditVerdict { kHolds, kBroken, kInconclusive };

// "holds", "broken", "inconclusive".
std::string_view audit_verdict_name(AuditVerdict verdict);
// 0 holds, 1 broken, 3 inconclusive.
int exit_code(AuditVerdict verdict);

struct AuditReport {
  AuditVerdict verdict = AuditVerdict::kHolds;
  std::string why;  // of an inconclusive verdict
  comparison::TraceFacts run;
  std::string specification;  // the file, or empty
  AuditCoverage coverage;
  AuditSharpness sharpness;
  std::vector<AuditedTensor> tensors;  // in the order of the step
  std::vector<AuditFinding> findings;  // the first of the step first
  std::uint64_t downstream = 0;        // broken tensors that a finding explains
  std::vector<std::string> warnings;
  comparison::Environment environment;
};

// Sets outcomes, findings, coverage, sharpness and the verdict from the checks. A run of which less
// than half could be judged is inconclusive, and so is one whose recorded loss, gradient norm or a
// main gradient could not, or of which a tensor could not be read. `lost_ranks`: ranks whose files
// cannot be read.
void conclude(std::size_t lost_ranks, const trace::Manifest& manifest, AuditReport& report);

}  // namespace ttrace::replay
