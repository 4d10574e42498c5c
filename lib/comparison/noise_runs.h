// Checks that noise runs are runs of this reference, its first activation perturbed by one
// rounding, each with its own seed, and that a calibration was made from such runs. Anything else
// is refused.
#pragma once

#include <string>
#include <vector>

#include "comparison/pairing.h"
#include "comparison/tensor_comparison.h"
#include "judge/calibration.h"
#include "trace/source.h"

namespace ttrace::comparison {

// A noise run may be perturbed by this many ε of the coarsest type that the reference computes in.
// The collector perturbs by one. What it perturbed may then differ by this many ε of its norm:
// other kernels round the layer anew.
inline constexpr double kMostRoundings = 4;
inline constexpr double kMostOfFirstOutput = 16;

// Whether both are recordings of the same run: the same files, or the same run id.
bool is_same_run(const trace::Source& a, const trace::Source& b);

struct NoiseRuns {
  std::vector<const trace::Source*> runs;  // without those that repeat another one
  std::vector<std::string> warnings;
};

// Checks the manifests alone. Of runs with the same seed it keeps the first, with a warning. It
// also warns of a run that records no seed or no parameters, and of a perturbed run given as the
// reference or the candidate. Throws an input error for a run that is the reference, the candidate
// or another noise run, and for one that lacks tensors of the reference (other than those that it
// was asked not to record, and those of a numbered module, such as an expert, that did not run). So
// is one that says it was perturbed by more than kMostRoundings of the coarsest type that
// the reference computes in: no rounding does that, and a fault of that size would hide in it.
NoiseRuns check_noise_runs(const trace::Source& reference, const trace::Source& candidate,
                           const std::vector<const trace::Source*>& noise);

// Whether a perturbation of the first activation can change tensors of this kind within a step.
bool is_reached_by_noise(trace::Kind kind);

// Checks noise runs by their measured differences from the reference.
class NoiseDifferences {
 public:
  explicit NoiseDifferences(const trace::Manifest& reference);

  // `noise`: that of pair.noise. Throws an input error if a parameter at the reference's first step
  // differs, or if the output that a run says it perturbed differs there by more than a rounding.
  void add(const Pair& pair, const judge::NoiseEstimate& noise);
  // Throws an input error for a run that equals the reference in all added tensors that a
  // perturbation can reach.
  void require_some() const;

 private:
  struct OfRun {
    const trace::Source* run;
    bool any;
  };

  bool& any_of(const trace::Source* run);

  std::uint64_t first_step_;
  double rounding_;          // ε of the coarsest type that the reference computes in
  std::vector<OfRun> runs_;  // runs with a tensor that a perturbation can reach
};

// Makes the first check on the measured results of a comparison, and the second if every tensor
// that a perturbation can reach was measured: one that was not selected or not read may differ.
void check_measured_noise(const trace::Source& reference,
                          const std::vector<TensorComparison>& results);

// Warns, in a sentence or none, of the reference's floating-point tensors that the calibration
// `file` cannot judge: those of kinds and steps that it lacks, and of numbered modules, such as
// experts, that did not run in it. Throws an input error if it lacks any other tensor of the
// reference, or has one in another shape or type. Accepts a file without calibrated tensors (rules
// alone).
std::vector<std::string> calibration_warnings(const trace::Manifest& reference,
                                              const judge::Calibration& calibration,
                                              const std::string& file);

// Compares the calibration with the parameters that the reference's first step begins with. Throws
// an input error if their norm differs from the norm at calibration by more than the rounding of a
// sum, or if they differed between the calibration's runs.
void check_calibrated_parameters(const trace::Manifest& reference,
                                 const judge::Calibration& calibration, const std::string& file,
                                 const std::vector<TensorComparison>& results);

}  // namespace ttrace::comparison
