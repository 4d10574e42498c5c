// Gives every measured tensor its tolerance and its outcome.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "comparison/tensor_comparison.h"
#include "judge/calibration.h"
#include "judge/outcome.h"
#include "judge/slices.h"

namespace ttrace::comparison {

class AccumulationError;

// How far apart the parameters are with which a step begins.
struct ParametersApart {
  double difference = 0;  // ‖C - R‖ / ‖R‖ of all together
  // ‖C - R‖ of the parameters that are further apart than noise runs explain, over the ‖R‖ of all
  // parameters; 0 if all updates before the step were replayed. An optimizer that rounds to bf16,
  // such as Muon, moves some parameters of a healthy candidate by one rounding, and other
  // parameters of a noise run.
  double beyond_noise = 0;
};

// By step, only for steps after an update: before, nothing has moved the parameters. Leaves out
// values that are not finite.
std::map<std::uint64_t, ParametersApart> parameters_apart(
    const std::vector<TensorComparison>& results);

// Whether a tensor of this kind is computed from the step's parameters.
bool inherits(trace::Kind kind);

// Chooses the tolerance of each tensor of one run: exact for integers, by replay where the
// optimizer was replayed, by noise where it is known, else the fallback, which depends on all
// tensors. The policy's rules change the latter two.
class Tolerances {
 public:
  // `results`: all that were measured. `rules` must outlive this. At most `most_slices` slices
  // beyond their tolerance are kept.
  Tolerances(const trace::Manifest& reference, const judge::Policy& rules,
             const std::vector<TensorComparison>& results,
             std::size_t most_slices = judge::SliceJudgement::kMostKept);

  // Sets tolerance and slices of a record that has a comparison, and returns its outcome. Needs its
  // sums by cell and its noise by cell. Before it returns a divergence, it looks up the rounding of
  // the reference's own sum in `sums` and allows that too.
  judge::Judgement judge(const AccumulationError& sums, TensorComparison& result) const;

 private:
  judge::Tolerance fallback(const TensorComparison& result, double epsilon, double quantum) const;
  // How far apart the parameters are that a tensor of this key inherits from; 0 if it does not.
  ParametersApart inherited(const trace::TensorKey& key) const;
  void add_scalar(const trace::TensorKey& key, double noise, const measure::TileStats& stats);
  // Returns the largest ‖R' - R‖ / ‖R‖ of scalars of the same kind and name pattern, over steps and
  // micro-batches: the noise of one scalar alone may be small by chance.
  double noise_of_alike(const trace::TensorKey& key) const;
  void add_gradient_scale(const TensorComparison& result);
  void add_output(const TensorComparison& result);
  // Returns the spacing near 0 of the numbers that the tensor's elements were computed from, the
  // wider of both sides; 0 where it is not known.
  double element_quantum(const TensorComparison& result) const;
  // How a pair is rounded: as it was computed, and what storing its one number adds.
  struct Precision {
    double epsilon = 0;  // of the computation
    double stored = 0;   // of the types that hold it, other than those that round it on top
    double storage = 0;  // relative: half an ε of every type that rounds it on top
  };
  Precision precision_of(const TensorComparison& result) const;
  void settle(TensorComparison& result) const;
  void settle_by(const judge::PolicyRule* rule, TensorComparison& result) const;

  const judge::Policy& rules_;
  std::size_t most_slices_;
  std::uint64_t layers_;
  std::map<trace::Kind, double> typical_rms_;
  judge::Coherence coherence_;
  std::map<std::pair<trace::Kind, std::string>, double> scalar_noise_;
  bool fp8_;
  bool normalizes_channels_;
  std::map<std::uint64_t, ParametersApart> inherited_;  // by step, of those after an update
  // The largest scale of the raw gradients of a step.
  std::map<std::pair<TraceSide, std::uint64_t>, double> gradient_scale_;
  std::map<TraceSide, double> epsilon_of_outputs_;  // the coarsest of each side's
};

// Gives every measured record its tolerance and outcome. Drops the sums by cell and the noise by
// cell afterwards.
void judge_results(const Tolerances& tolerances, const AccumulationError& sums,
                   std::vector<TensorComparison>& results);

// Judges the slices of a tensor by its measurement and its noise, both with their cells.
void judge_parts(const judge::Policy& rules, std::size_t most_slices, TensorComparison& result);

}  // namespace ttrace::comparison
