// One record per tensor of the two traces. Passes fill it, one after the other; reports read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "judge/noise_rule.h"
#include "judge/outcome.h"
#include "judge/slices.h"
#include "judge/tolerance.h"
#include "layout/view.h"
#include "measure/measure.h"
#include "measure/measure_update.h"
#include "measure/truth_errors.h"
#include "tensor/dtype.h"
#include "trace/key.h"

namespace ttrace::comparison {

// A tensor of the union of both traces, with what there is of it on either side.
struct Pair {
  trace::TensorKey key;
  layout::ViewPtr reference;              // or null
  layout::ViewPtr candidate;              // or null
  std::vector<measure::TensorRef> noise;  // of the runs that have the tensor
  std::string dropped = "";               // why a rule of the map leaves it out, or empty
  std::string note = "";   // why a side, or a rank's share of it, is absent, or empty
  bool has_parts = false;  // a side is absent and has parts of the tensor
};

// Of one tensor.
struct TensorTruth {
  tensor::DType dtype = tensor::DType::kFloat32;  // the truth's
  measure::TruthErrors errors;
};

// What the ratios ‖C - T‖ / ‖R - T‖ of all tensors come to.
struct TruthRatios {
  std::uint64_t compared = 0;         // tensors with numbers
  std::uint64_t reference_exact = 0;  // of them, those whose reference has no error
  std::uint64_t unusable = 0;    // of them, those with nothing finite or with overflowing squares
  std::optional<double> median;  // over the finite ratios
  std::optional<double> worst;   // the largest finite ratio ...
  std::size_t worst_at = 0;      // ... and the index of its tensor
};

// `truths[i]` is tensor i's, null where it has none. Ties: the first.
TruthRatios truth_ratios(const std::vector<const TensorTruth*>& truths);

// Of a value that was judged by what it follows from in its own run: an updated parameter by
// replaying its optimizer, a gradient norm by the main gradients.
struct Replay {
  std::string of;  // "adamw", "adam", "sgd", "no update", "grad_norm"; the rest is of updates alone
  std::uint64_t updates = 0;
  std::uint64_t outside = 0;  // elements out of their bounds
  std::uint64_t unmoved = 0;  // of them, those that still have their old value
  double bound_norm = 0;      // of a gradient norm too
  std::optional<measure::WorstUpdate> worst;
  // Of any: how far it is from the reference, which does not decide.
  double reference_difference_norm = 0;
  double reference_norm = 0;
};

// Present where numbers were compared. With `replay` the measurement's "reference" is the replayed
// value, not the reference's; its replicas are as ever.
struct Comparison {
  measure::Measurement measurement;
  judge::Tolerance tolerance;
  std::optional<Replay> replay = std::nullopt;
  std::optional<judge::NoiseEstimate> noise = std::nullopt;  // what perturbed runs tell of it
  judge::SliceJudgement slices = {};                         // nothing without noise
  // Of every element, what the reference's own accumulator rounded away; or empty.
  std::vector<double> own_rounding = {};
  std::vector<double> coherence = {};  // of its noise and of that of tensors like it
};

// The one record of a tensor: its two sides, and all that became of comparing them.
struct TensorComparison : Pair {
  judge::Outcome outcome = judge::Outcome::kMatch;
  std::string reason;
  bool left_out = false;  // one side alone has it, and both were asked for: skipped
  tensor::Shape shape;    // the reference's, or the candidate's if that is all there is
  tensor::DType dtype = tensor::DType::kFloat32;
  std::optional<tensor::DType> candidate_dtype;  // where it is another
  bool exact = false;
  std::optional<Comparison> comparison;
  std::optional<TensorTruth> truth;   // only with a comparison
  std::uint64_t tokens_left_out = 0;  // rows of tokens that a router sent elsewhere
  // Of a missing or extra tensor: the other side's unmatched names of the same kind and shape.
  std::vector<std::string> nearest;
  // Where the largest difference lies in the candidate.
  std::optional<std::uint64_t> largest_rank;
  tensor::Shape largest_local;
};

// ‖C - R‖/‖R‖; infinite where the reference is zero and the candidate is not.
double relative_error(const measure::Measurement& measurement);
// Share of the allowed error that is used, by the tensor or by the worst of its parts; infinite
// where nothing is allowed and something is there.
double used_share(const Comparison& comparison);
// The smallest multiplier with which the tensor and all of its parts would pass.
double passing_multiplier(const Comparison& comparison);

}  // namespace ttrace::comparison
