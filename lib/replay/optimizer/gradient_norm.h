// Judges a recorded gradient norm by the run's own main gradients. The noise of one number says
// little, and in half precision its tolerance lets an error of ten per cent pass; what the norm is
// computed from tells it to the rounding of a sum.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "comparison/pairing.h"
#include "comparison/result.h"
#include "replay/optimizer/clipping.h"
#include "trace/source.h"

namespace ttrace::replay {

class GradientNormJudge {
 public:
  // Every record has been measured. Reads main gradients that were
  // not measured.
  GradientNormJudge(const trace::Source& reference, const trace::Source& candidate,
                    const std::vector<comparison::TensorComparison>& results);

  // Changes the result of a gradient norm that has been judged against the reference's. Where the
  // reference's own norm follows from its main gradients (so that this is how the job computes it)
  // and the candidate has recorded all of these, the candidate's
  //  - diverges if it does not follow from its main gradients, and is a replica conflict if the
  //    ranks recorded different ones;
  //  - is not judged if it is more than 1 % off and adding up so many squares in single precision
  //    may lose as much;
  //  - otherwise stays diverged only if it differs from the reference and a main gradient of the
  //    step does too (`gradients_match` is false): it is then downstream of that.
  // Its measurement is then the one against the replayed norm, and it has a `replay`. Where main
  // gradients were recorded after they were clipped, they do not tell the norm from before: then a
  // norm that they contradict diverges, and any other stays compared with the reference's, whose
  // sum and its own may have lost digits. All other
  // results stay as they are.
  void judge(bool gradients_match, comparison::TensorComparison& result) const;

 private:
  struct Step {
    MainGradientNorm reference;
    MainGradientNorm candidate;
    std::optional<double> reference_clip;
    std::optional<double> candidate_clip;
  };

  // Of the steps in which the candidate lacks no main gradient, and both norms are known.
  std::map<std::uint64_t, Step> steps_;
};

// Judges every gradient norm among `results` after everything else has been judged.
void judge_gradient_norms(const trace::Source& reference, const trace::Source& candidate,
                          std::vector<comparison::TensorComparison>& results);

}  // namespace ttrace::replay
