// One record per tensor of the two traces. Passes fill it, one after the other; reports read it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/heap_optional.h"
#include "base/shared_value.h"
#include "judge/noise_rule.h"
#include "judge/outcome.h"
#include "judge/slices.h"
#include "judge/tolerance.h"
#include "layout/view.h"
#include "measure/measure.h"
#include "measure/measure_update.h"
#include "tensor/dtype.h"
#include "trace/key.h"

namespace ttrace::comparison {

// A tensor of the union of both traces, with its view on either side.
struct Pair {
  trace::TensorKey key;
  layout::ViewPtr reference;              // or null
  layout::ViewPtr candidate;              // or null
  std::vector<measure::TensorRef> noise;  // the tensor in those noise runs that have it
  // Why a rule of the map leaves it out, or empty.
  base::SharedValue<std::string> dropped = {};
  // Why a side, or a rank's share of it, is absent, or empty.
  base::SharedValue<std::string> note = {};
  bool has_parts = false;  // an absent side has some of its micro-batches
};

// What an update "is a replay of" where the parameter before the step is not what the optimizer's
// master holds (optimizer/masters.h).
inline constexpr const char* kOfMaster = "master";

// A value that was judged by recomputing it from values of its own run: an updated parameter by
// replaying its optimizer, a gradient norm from the main gradients.
struct Replay {
  std::string of;  // "adamw", "adam", "sgd", "no update", "grad_norm", kOfMaster
  // Counted for updates only, like `worst`.
  std::uint64_t updates = 0;
  std::uint64_t outside = 0;  // elements out of their bounds
  std::uint64_t unmoved = 0;  // of them, those that still have their old value
  double bound_norm = 0;
  std::optional<measure::WorstUpdate> worst;
  // The difference from the reference, which does not decide the outcome.
  double reference_difference_norm = 0;
  double reference_norm = 0;
};

// The numbers that comparing both sides yielded, and the tolerances they are judged by. With
// `replay` the measurement's "reference" is the replayed value, except for its replicas.
struct ComparedNumbers {
  measure::Measurement measurement;
  judge::Tolerance tolerance;
  base::HeapOptional<Replay> replay = std::nullopt;
  base::HeapOptional<judge::NoiseEstimate> noise = std::nullopt;  // from perturbed runs
  base::SharedValue<judge::SliceJudgement> slices = {};           // empty without noise
  // The rounding error of the reference's own accumulator, by element; or empty.
  base::SharedValue<std::vector<double>> own_rounding = {};
  // The coherence of its noise and of that of tensors like it, see judge::Coherence.
  base::SharedValue<std::vector<double>> coherence = {};
};

// Why a tensor with the outcome `skipped_by_rule` was skipped.
enum class SkippedFor : std::uint8_t {
  kSelection,     // --only, --skip, --kind, --step
  kPolicy,        // a rule of the tolerance file
  kMap,           // a rule of the map drops it
  kCommon,        // --common: one side alone has it
  kOtherPart,     // another process measures it
  kInterruption,  // the comparison was stopped before
};

enum class TraceSide : std::uint8_t { kReference, kCandidate };

// The one record of a tensor: its two sides, and the results of comparing them.
struct TensorComparison : Pair {
  judge::Outcome outcome = judge::Outcome::kMatch;
  std::optional<SkippedFor> skipped = std::nullopt;  // of `skipped_by_rule` only
  // The side that lacks it, if it is `not_recorded` or some ranks could not record it.
  std::optional<TraceSide> lacking = std::nullopt;
  bool incomplete = false;  // not recorded although it was asked for
  // Not recorded, because the implementations differ and one does without it.
  bool other_implementation = false;
  bool exact = false;  // integers on both sides: every bit must agree
  // Floating-point numbers that were stored before the step and computed by nobody in it: every
  // value must be that of the other side, or be rounded from it (comparison/stored_before.h).
  bool stored_before = false;
  // An update that the optimizer makes with the run's own settings, and would not with the
  // reference's.
  bool by_setting = false;
  // An update that was not judged is off in many elements by little, unlike a rounding of single
  // gradients.
  bool spread = false;
  std::string reason;
  tensor::Shape shape;  // the reference's, or the candidate's if that is all there is
  tensor::DType dtype = tensor::DType::kFloat32;
  std::optional<tensor::DType> candidate_dtype;  // where it differs from `dtype`
  std::optional<ComparedNumbers> comparison;     // where numbers were compared
  std::uint64_t tokens_left_out = 0;             // rows of tokens that a router sent elsewhere
  std::uint64_t rows_without_gradient = 0;       // rows left out since no gradient comes to them
  // For a missing or extra tensor: the other side's unmatched names of the same kind and shape.
  base::SharedValue<std::vector<std::string>> nearest;
};

// The boxes of a compared tensor that the same ranks of the candidate hold.
std::vector<measure::RankBoxes> parts_of(const TensorComparison& result);
// ‖C - R‖/‖R‖ over finite pairs; infinite where the reference is zero and the candidate is not.
double relative_error(const measure::Measurement& measurement);
// Share of the allowed error that is used, by the tensor or by the worst of its slices; infinite
// where no error is allowed and there is one, and where a value is NaN or infinite on one side
// alone.
double used_share(const ComparedNumbers& numbers);
// The smallest multiplier with which the tensor and all of its slices would pass; infinite
// likewise.
double passing_multiplier(const ComparedNumbers& numbers);

// What an answer says of a tensor with numbers: its error relative to ‖R‖, the share of what is
// allowed, and what would let it pass. NaN where a value is NaN or infinite on one side alone: what
// is left of such a tensor says nothing. Of copies that differ, the distance between them if it is
// larger than the error.
double told_error(const TensorComparison& result);
double told_share(const TensorComparison& result);
double told_multiplier(const TensorComparison& result);  // with which it would pass

}  // namespace ttrace::comparison
