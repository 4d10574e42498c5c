// Why a tensor diverged, with the numbers that say so. A cause without evidence does not exist.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comparison/result.h"
#include "judge/tolerance.h"
#include "localize/causes/profile.h"
#include "measure/measure.h"
#include "measure/tensor_reader.h"
#include "trace/source.h"

namespace ttrace::localize {

using answer::Cause;
using answer::RejectedCause;

// Other tensors of the two runs, with which a finder may compare.
class Related {
 public:
  // All must outlive this.
  Related(const std::vector<comparison::TensorComparison>& results, const trace::Source& reference,
          const trace::Source& candidate);

  using Records = std::vector<const comparison::TensorComparison*>;
  // In the order of the records.
  const Records& of_kind(trace::Kind kind) const;
  const Records& alike(trace::Kind kind, const tensor::Shape& shape) const;

  // Null source where that side lacks the tensor.
  measure::TensorRef reference(const comparison::TensorComparison& record) const;
  measure::TensorRef candidate(const comparison::TensorComparison& record) const;

  const trace::Source& candidate_run() const { return candidate_; }

 private:
  const trace::Source& reference_;
  const trace::Source& candidate_;
  std::map<trace::Kind, Records> kinds_;
  std::map<std::pair<trace::Kind, tensor::Shape>, Records> shapes_;
};

struct Variety;  // trial.h

// What the finder of a cause may look at.
struct Case {
  const measure::Backend* backend = nullptr;
  measure::TensorRef reference;
  measure::TensorRef candidate;
  const measure::Measurement* measurement = nullptr;
  judge::Tolerance tolerance;
  // ‖noise‖ of perturbed runs, and how much of it lies along the tensor; nothing where unknown.
  std::optional<double> noise_norm = std::nullopt;
  std::optional<double> coherence = std::nullopt;
  std::map<std::string, std::string> reduced_over = {};  // axes_reduced_over()
  bool exact = false;     // integers: every element must equal that of the reference
  bool conflict = false;  // the outcome is a replica conflict
  bool spreads = true;    // something bad follows from the tensor
  bool may_read = true;   // may read the whole tensor again, not only samples of it
  // Other tensors of both runs, and the record of this one; null where there are none to look at.
  const Related* related = nullptr;
  const comparison::TensorComparison* result = nullptr;
  // A run is judged by itself: the other side is no reference, but the value expected of the run.
  bool is_expected_value = false;
  // Causes that were tried in vain are added here, the nearest first; may be null.
  std::vector<RejectedCause>* rejected = nullptr;
  // Made when a finder first asks for it (profile_of).
  mutable std::shared_ptr<const Profile> profile = nullptr;
  mutable std::shared_ptr<const Variety> variety = nullptr;  // likewise (variety_of)
};

// Returns all causes that the evidence supports, the one that leaves least unexplained first. Uses
// the sums of the measurement first, then samples of the tensor, and the whole tensor only if these
// explain nothing. Reads the tensor again; throws an input error if that fails. Two causes say only
// where the error is (mask_or_rows, replica_conflict); they are left out if another cause fits.
// Whatever a finder returns, only what is_supported() is named.
std::vector<Cause> find_causes(const Case& the_case);

// Whether the numbers of a cause support it, whoever found it: they are finite, it explains half of
// the squared error, and it does better than the hypothesis that one side is a single number, which
// fits anything that hardly varies. What says only where the error is, or that values are zero,
// needs finite numbers alone. Reads a sample of both tensors when it is first asked.
bool is_supported(const Case& the_case, const Cause& cause);

// Finders. Each returns what the evidence supports, and notes what it tried in vain.

// The value was never summed (or averaged) over an axis: replicas differ, and their sum is the
// reference.
std::vector<Cause> find_missing_reduction(const Case& the_case);

// The value was multiplied once too often or too seldom: C ≈ k·R, and the residual is rounding.
// Names the factor, to the digits that the residual supports, the simple fraction that it is, if
// one stands out, and a mesh axis where the factor is its size or the inverse and a sum was made
// over it (Case::reduced_over): many things have the size 2.
std::vector<Cause> find_scaled(const Case& the_case);

// Every shard of the candidate is the reference's times a factor of its own.
std::vector<Cause> find_scaled_by_rank(const Case& the_case);

// The value was summed once more although each rank's copy was the sum already: the merged value is
// as many times the reference as the axis has ranks, and the copies, or what the tensor was made
// from, are whole on each of them.
std::vector<Cause> find_double_reduction(const Case& the_case);

// The copies of different ranks differ: how far each class is from the reference.
std::vector<Cause> find_replica_conflict(const Case& the_case);

// NaN or Inf on one side alone, with the place of the first.
std::vector<Cause> find_non_finite(const Case& the_case);

// Blocks of the reference along one dimension, in another order (block_mapping.h).
std::vector<Cause> find_wrong_order(const Case& the_case);

// A block holds what another one holds, too, instead of its own (block_mapping.h).
std::vector<Cause> find_duplicated_shard(const Case& the_case);

// A rank's shard is the reference's at another offset, which is no other rank's shard.
std::vector<Cause> find_wrong_slice(const Case& the_case);

// Rows are moved by a few places: everywhere, within chunks, or rolled after the cut over ranks.
std::vector<Cause> find_shifted(const Case& the_case);

// Elements, rows (`zeroed`) or a tail (`truncated`) are zero.
std::vector<Cause> find_zeroed(const Case& the_case);

// The value is that of an earlier step, of another micro-batch or of another call; or the copies of
// some ranks are the parameter before the step.
std::vector<Cause> find_earlier_value(const Case& the_case);

// A parameter or buffer before a step is not what the candidate's own step before left, and the
// reference's is: something wrote it in between.
std::vector<Cause> find_changed_between_steps(const Case& the_case);

// An average moves towards the parameter from before the update, the reference's towards the new
// one.
std::vector<Cause> find_follows_old(const Case& the_case);

// The candidate's step moves a parameter of which the reference has no main gradient, or a buffer,
// and the reference's step leaves it as it was.
std::vector<Cause> find_not_frozen(const Case& the_case);

// The gradient of a parameter is that of the reference without, or with, the gradient of another
// name: one of the runs has one parameter where the other has two. Reads three whole tensors.
std::vector<Cause> find_untied(const Case& the_case);

// The copies of a main gradient differ, and the ranks' raw gradients were recorded at different
// loss scales.
std::vector<Cause> find_loss_scales(const Case& the_case);

// The value is that of the same tensor of another layer of the reference, or of a sibling ("query",
// "key"), perhaps in exchange; or an input is the run's own output of a module that it should not
// come from.
std::vector<Cause> find_other_layer(const Case& the_case);

// The candidate's values lie on the grid of a narrower type, the reference's do not, and the error
// is a rounding to it.
std::vector<Cause> find_lower_precision(const Case& the_case);

// The same row was added to all rows: C - R is one vector, perhaps a multiple of a bias.
std::vector<Cause> find_offset(const Case& the_case);

// Another placement of the same shards makes the candidate match: the manifest may be wrong.
std::vector<Cause> find_wrong_layout(const Case& the_case);

// The error lies in certain elements, rows or tokens alone.
std::vector<Cause> find_mask_or_rows(const Case& the_case);

// A recorded gradient norm is the norm of some ranks' or some tensors' gradients alone. The
// measurement may be that of a replay.
std::vector<Cause> find_local_norm(const Case& the_case);

// An updated parameter moved by a multiple of the reference's step.
std::vector<Cause> find_scaled_update(const Case& the_case);

// An update that is a function of the singular values of the whole gradient in the reference, as an
// orthogonalisation (Muon) is, and of those of each shard by itself in the candidate. Of matrices
// of at most 2²⁴ elements, cut into rectangles of at least 4 rows and columns.
std::vector<Cause> find_orthogonal_by_shard(const Case& the_case);

// A main gradient is a sum of raw gradients in which some are lacking or count another number of
// times: a reduction that some ranks' terms never reached (missing_reduction), one that took some
// of them only (replica_conflict, where the ranks' copies differ), or a wrong sum on all ranks.
std::vector<Cause> find_wrong_sum(const Case& the_case);

// A weight's gradient is the product of the recorded operands with the chunks of one of them in
// another order (wrong_order).
std::vector<Cause> find_operand_order(const Case& the_case);

// A placement for a candidate whose shape is not the reference's.
std::vector<Cause> find_layout_for_shape(const measure::Backend& backend,
                                         const measure::TensorRef& reference,
                                         const measure::TensorRef& candidate);

// A layer that no rank has: where the others are.
std::vector<Cause> find_missing_layer(const std::string& group, const trace::Source& candidate);

// "1.0323 = 32/31", "0.5 = 1/2", "3"; `uncertainty` ≥ 0 is how far off `factor` may be. Never "1":
// digits are added until it differs. A fraction (n, 1/n, n/(n ± 1), or of numbers up to 16) is
// named where a factor that is as uncertain would rarely come as near to one by chance.
std::string describe_factor(double factor, double uncertainty);
// "1/2": the fraction where one stands out, else "0.973", with few digits; never "1".
std::string shortest_factor(double factor, double uncertainty);

struct StaleFacts {
  std::uint64_t wrong = 0;    // elements that are not what the optimizer makes
  std::uint64_t unmoved = 0;  // those of them that have their old value
  double error = 0;           // relative, of the whole tensor
  // The wrong ones are those of the parameter before the step, which are not what the optimizer's
  // wider copy holds.
  bool of_master = false;
  bool is_update = true;  // else the tensor is the copy itself
};

// An updated parameter, or part of it, still has its old value, or was made from a master that is
// none of the parameter before it. Named where most of the wrong elements did not move.
std::vector<Cause> find_stale(const StaleFacts& facts);

// Returns the causes of a value that a replay judged: the measurement compares with what the replay
// made.
std::vector<Cause> find_causes_of_replay(const Case& the_case, const StaleFacts& facts);

// Returns the mesh axes over which something was added up between what the pair was computed from
// (results[i] for i in `depends_on`) and the pair, each with a description: {"dp", "its param_grad
// is a partial sum over dp"}. A dependency is partial or cut over the axis, and the pair is
// neither.
std::map<std::string, std::string> axes_reduced_over(
    const std::vector<std::size_t>& depends_on, const comparison::Pair& pair,
    const std::vector<comparison::TensorComparison>& results);

}  // namespace ttrace::localize
