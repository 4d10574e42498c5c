// Gives every measured tensor its tolerance, and judges its parts where the noise is known.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/pairing.h"
#include "engine/summed_gradients.h"
#include "report/compare_report.h"
#include "tolerance/coherence.h"
#include "tolerance/policy.h"
#include "verdict/outcome.h"

namespace ttrace::engine {

// How tensors of one run are judged: exactly for integers, by replay where the optimizer was
// replayed, by noise where it is known, else by the fallback, which depends on all tensors.
class Tolerances {
 public:
  // `results`: all that were measured. `rules` must outlive this. `most_slices` are kept of those
  // beyond their tolerance.
  Tolerances(const trace::Manifest& reference, const tolerance::Policy& rules,
             const std::vector<report::Result>& results,
             std::size_t most_slices = verdict::SliceJudgement::kMostKept);

  // Sets tolerance and slices of the pair's result, which has a comparison. Needs its sums by cell
  // and its noise by cell.
  void settle(const Pair& pair, report::Result& result) const;

  // settle() and the verdict. Where that would be a divergence, the rounding of the reference's own
  // sum is looked up in `sums` and allowed too.
  verdict::Judgement judge(const Pair& pair, const SummedGradients& sums,
                           report::Result& result) const;

 private:
  tolerance::Tolerance fallback(const report::Result& result, double epsilon, double quantum) const;
  void add_scalar(const trace::TensorKey& key, double noise, const compare::TileStats& stats);
  // ‖R' - R‖ / ‖R‖ of the scalar of its kind and name pattern with the most, over steps and
  // micro-batches: that of one alone may be small by chance.
  double noise_of_alike(const trace::TensorKey& key) const;
  void settle_by(const tolerance::PolicyRule* rule, const Pair& pair, report::Result& result) const;

  const tolerance::Policy& rules_;
  std::size_t most_slices_;
  std::uint64_t layers_;
  std::map<trace::Kind, double> typical_rms_;
  tolerance::Coherence coherence_;
  std::map<std::pair<trace::Kind, std::string>, double> scalar_noise_;
  bool fp8_;
  std::map<std::uint64_t, double> inherited_;  // by step, of those after an update
};

// results[i] belongs to pairs[i]; those with a comparison get its tolerance (exact for integers, by
// replay where the optimizer was replayed, by noise where it is known, else the fallback; the rules
// change the latter two) and their outcome. The sums by cell and the noise by cell are let go of.
void judge_results(const Tolerances& tolerances, const std::vector<Pair>& pairs,
                   const SummedGradients& sums, std::vector<report::Result>& results);

// Judges the parts of a tensor by its measurement and its noise, both with their cells.
void judge_parts(const Pair& pair, const tolerance::Policy& rules, std::size_t most_slices,
                 report::Result& result);

}  // namespace ttrace::engine
