// The norm of a run's own main gradients, step by step, and what follows from it: the recorded
// gradient norm, and the clipping by it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comparison/pairing.h"
#include "comparison/result.h"
#include "trace/normed_parts.h"
#include "trace/source.h"

namespace ttrace::optimizer {

using EntriesOfSteps = std::map<std::uint64_t, std::vector<const trace::TensorEntry*>>;

struct MainGradientNorm {
  double norm = 0;  // ‖g‖ over all main gradients as recorded, in binary64; replicas count once
  // The relative error of a job that adds up the squares in the gradients' own precision.
  double rounding = 0;
  std::string problem;      // why it is not known, or empty
  bool unreadable = false;  // a read failed, and the problem says how
};

class MainGradientNorms {
 public:
  // Takes ‖g‖² of main gradients from `results` if they have measured them. `side` says which side
  // of the results `run` is; `run` must outlive this.
  MainGradientNorms(const trace::Source& run,
                    const std::vector<comparison::TensorComparison>& results,
                    layout::ViewPtr comparison::Pair::*side);
  // Takes ‖g‖² of main gradients that have been measured, by the keys of stored tensors.
  MainGradientNorms(const trace::Source& run, std::map<trace::TensorKey, double> squared_norms);

  // `part`: see trace::NormedParts. Reads what it needs at the first call for a part of a step; not
  // thread-safe. Throws nothing: a gradient that cannot be read or is not finite is a problem, and
  // so is a part without main gradients.
  const MainGradientNorm& of(std::uint64_t step, const std::string& part);

  const trace::NormedParts& parts() const { return parts_; }

 private:
  MainGradientNorm norm_of(std::uint64_t step, const std::string& part) const;

  const trace::Source& run_;
  trace::NormedParts parts_;
  EntriesOfSteps gradients_;                          // main gradients
  std::map<trace::TensorKey, double> squared_norms_;  // by the keys of stored tensors
  std::map<std::pair<std::uint64_t, std::string>, MainGradientNorm> known_;
};

struct Clip {
  double factor = 1;        // of the gradient as recorded
  double rounding = 0;      // by how much, relatively, the job's factor may be another
  std::string problem;      // why it is not known, or empty
  bool unreadable = false;  // a read failed, and the problem says how
};

// Finds how much clipping multiplied the candidate's main gradients. The recorded norm gives the
// factor; the gradients' own norm shows whether they were recorded before or after clipping. A
// collector may record either: where the job calls it, or when the optimizer's step begins. Without
// a recorded norm the gradients' own gives the factor, where the trace has all of them: a collector
// that names a limit knows that all gradients were clipped to it at once.
class Clipping {
 public:
  // `candidate` must outlive it.
  Clipping(const trace::Source& candidate,
           const std::vector<comparison::TensorComparison>& results);

  // `part`: the gradients whose norm limits them, see trace::NormedParts. Reads what it needs at
  // the first call for a part of a step; not thread-safe. Throws nothing: an unreadable norm or
  // gradient is a problem.
  Clip of(std::uint64_t step, const std::string& part, double clip_norm);

  // The norm of a part's main gradients, in place of one that was not recorded. A problem where the
  // trace lacks some of them. Reads, and throws, as `of` does.
  MainGradientNorm own_norm(std::uint64_t step, const std::string& part);

  const trace::NormedParts& parts() const { return gradients_.parts(); }

 private:
  struct Recorded {
    std::optional<double> norm;  // none without a problem: that of the main gradients stands in
    std::string problem;
    bool unreadable = false;
  };

  const Recorded& recorded(std::uint64_t step, const std::string& part);
  // Returns whether every parameter of the part that the optimizer updates in `step` has a main
  // gradient, or was recorded without a raw gradient although others have one: no micro-batch has
  // used it.
  bool has_all_gradients(std::uint64_t step, const std::string& part);
  Clip by_own_norm(std::uint64_t step, const std::string& part, double clip_norm);

  const trace::Source& candidate_;
  EntriesOfSteps entries_;
  MainGradientNorms gradients_;
  std::map<std::pair<std::uint64_t, std::string>, Recorded> known_;
};

// Judges a recorded gradient norm by the run's own main gradients. The noise of one number says
// little, and in half precision its tolerance lets an error of ten per cent pass; the main
// gradients give the norm to the rounding of a sum.
class GradientNormJudge {
 public:
  // Every record has been measured. Reads main gradients that were not measured.
  GradientNormJudge(const trace::Source& reference, const trace::Source& candidate,
                    const std::vector<comparison::TensorComparison>& results);

  // Changes the result of a gradient norm that has been judged against the reference's; all other
  // results stay as they are. If the reference's own norm follows from its main gradients, which
  // shows that the job computes it so, and the candidate has recorded all main gradients, the
  // candidate's norm
  //  - diverges if it does not follow from its main gradients, and is a replica conflict if the
  //    ranks recorded different ones;
  //  - is not judged if it is more than 1 % off and adding up so many squares in single precision
  //    may lose as much;
  //  - stays diverged if its sign is not the reference's;
  //  - otherwise stays diverged only if it differs from the reference and a main gradient of the
  //    step does too (`gradients_match` is false): it is then downstream of that gradient.
  // In these cases its measurement is against the replayed norm, and it has a `replay`. Main
  // gradients recorded after clipping do not give the norm before it: a norm that they contradict
  // diverges, and any other stays compared with the reference's, allowing for digits that both sums
  // lost.
  //
  // It is unreadable if a main gradient of the step was not measured and cannot be read.
  void judge(bool gradients_match, comparison::TensorComparison& result) const;

 private:
  struct Step {
    MainGradientNorm reference;
    MainGradientNorm candidate;
    std::optional<double> reference_clip;
    std::optional<double> candidate_clip;
  };

  using Norm = std::pair<std::uint64_t, std::string>;  // the step and the name of a norm

  // Has the norms of steps in which the candidate lacks no main gradient and both are known.
  std::map<Norm, Step> known_;
  std::map<Norm, std::string> unreadable_;  // why these norms cannot be read
};

// Judges every gradient norm among `results` after everything else has been judged.
void judge_gradient_norms(const trace::Source& reference, const trace::Source& candidate,
                          std::vector<comparison::TensorComparison>& results);

}  // namespace ttrace::optimizer
