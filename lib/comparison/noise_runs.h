// Noise runs are worth what they are runs of: this reference, its first activation perturbed by one
// rounding, each with a seed of its own. What is not one is refused, not used as a tolerance.
#pragma once

#include <string>
#include <vector>

#include "comparison/pairing.h"
#include "comparison/result.h"
#include "trace/source.h"

namespace ttrace::comparison {

// Whether both are the recording of one and the same run: the same files, or the same run id.
bool is_same_run(const trace::Source& a, const trace::Source& b);

struct NoiseRuns {
  std::vector<const trace::Source*> runs;  // those that tell something of their own
  std::vector<std::string> warnings;
};

// Looks at the manifests alone. Of runs with one seed the first is kept, with a warning; a run that
// records no seed, or no parameters, is kept with a warning, and so is a perturbed run in the place
// of the reference or the candidate. Throws an input error for a run that is the reference, the
// candidate or another noise run, and for one that lacks tensors of the reference (other than those
// that it was told to leave out, and those of a numbered module, such as an expert, that did not
// run).
NoiseRuns check_noise_runs(const trace::Source& reference, const trace::Source& candidate,
                           const std::vector<const trace::Source*>& noise);

// What of the reference's tensors a run lacks, by why.
struct LackingTensors {
  std::size_t not_recorded = 0;  // it was told to leave them out, or has none of the kind
  std::size_t not_run = 0;       // of a numbered module that did not run, where its like did
  std::size_t missing = 0;
  std::string first_missing;
};
LackingTensors lacking_tensors(const trace::Manifest& reference, const trace::Manifest& run);

// 0 without any tensors.
std::uint64_t first_step_of(const trace::Manifest& manifest);

// What measured noise says of the runs that it is of.
class NoiseDifferences {
 public:
  explicit NoiseDifferences(const trace::Manifest& reference);

  // `norms[i]`: ‖R' - R‖ of pair.noise[i]. Throws an input error for a parameter at the reference's
  // first step that is not the reference's bit for bit.
  void add(const Pair& pair, const std::vector<double>& norms);
  // Throws an input error for a run that differs nowhere among the tensors added that a
  // perturbation can reach.
  void require_some() const;

 private:
  struct OfRun {
    const trace::Source* run;
    bool any;
  };

  bool& any_of(const trace::Source* run);

  std::uint64_t first_step_;
  std::vector<OfRun> runs_;  // that have a tensor which a perturbation can reach
};

// Both checks of what a comparison has measured; the second one where that is every tensor which a
// perturbation can reach, since one that was not selected or not read may differ.
void check_measured_noise(const trace::Source& reference,
                          const std::vector<TensorComparison>& results);

}  // namespace ttrace::comparison
