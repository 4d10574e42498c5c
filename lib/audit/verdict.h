// The answer of `ttrace audit` over a whole run: what was judged, how sharply, and the verdict.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "answer/environment.h"
#include "answer/finding.h"
#include "answer/trace_facts.h"
#include "answer/verdict.h"
#include "audit/record.h"
#include "audit/step_coverage.h"
#include "audit/updates.h"
#include "comparison/division.h"
#include "comparison/selection.h"
#include "trace/manifest.h"

namespace ttrace::audit {

// Tensors that break the same check by the same cause, in whatever step; without a cause, of one
// name pattern.
struct AuditFinding : answer::Finding {
  std::size_t shown = 0;  // index of the tensor that stands for them: the first of the step
  std::vector<std::size_t> members;
  std::string title;  // "param_grad of 3 parameters (layers.*.fc1.weight)"
};

// A setting of the optimizer that the run itself says, and nothing judges.
struct GivenSetting {
  std::string name;              // "lr"
  std::vector<double> values;    // each once, ascending
  std::uint64_t parameters = 0;  // that have one
};

struct AuditCoverage {
  std::uint64_t judged = 0;  // hold or are broken
  // Those of the step: recorded ones and lacking ones, without those that are given or 0 within
  // rounding.
  std::uint64_t tensors = 0;
  std::map<std::string, std::uint64_t> not_judged;  // by reason
  std::uint64_t below_bound = 0;
  std::uint64_t overflowed = 0;  // not among these
  std::uint64_t zero_within_rounding = 0;
  std::uint64_t endless = 0;         // judged tensors with elements that are NaN or +infinity
  std::uint64_t narrow_factors = 0;  // judged tensors with room for factors rounded to TF32
  std::uint64_t wide = 0;            // judged tensors whose bound is more than half of their value
  std::optional<StepCoverage> step;  // nothing without a specification
  std::optional<AuditedUpdates> updates;  // nothing for a part, or an audit that was interrupted
  std::uint64_t lacking = 0;              // of the step, and not in the trace
  std::string record_next;  // settings of the collector that record what is lacking, or empty
};

struct AuditSharpness {
  double worst_share = 0;            // of a tensor that holds
  std::optional<std::size_t> worst;  // that tensor
  // Nine of ten gradients that hold have at most this bound, so that a factor of 1 + this in them
  // would show. Nothing if no gradient holds.
  std::optional<double> gradient;
};

// The words of `ttrace audit` for its verdicts.
inline constexpr answer::VerdictWords kAuditWords{"holds", "broken"};

struct AuditReport {
  answer::Verdict verdict = answer::Verdict::kRight;
  std::string why;      // of an inconclusive verdict
  std::string besides;  // of a broken one: why it would be inconclusive if nothing were broken
  // Set for a merge that lacks parts.
  std::optional<answer::Interruption> interrupted;
  // Set for a part of a divided audit: `tensors` are its share, and whatever depends on the whole
  // step is left to the merge.
  std::optional<comparison::PartOfWork> part;
  answer::TraceFacts run;
  comparison::Selection selection;
  std::string specification;  // the file, or empty
  // The tensors of the trace, if only those that the person at the command selected were judged.
  std::optional<std::uint64_t> selected_of;
  AuditCoverage coverage;
  AuditSharpness sharpness;
  std::vector<AuditedTensor> tensors;        // in the order of the step
  std::vector<AuditFinding> findings;        // the first of the step first
  std::uint64_t downstream = 0;              // broken tensors that a finding explains
  std::vector<GivenSetting> given_settings;  // learning rates, if updates were judged by them
  std::vector<std::string> warnings;
  answer::Environment environment;
};

// Sets findings, coverage, sharpness and the verdict from the outcomes and coverage.step. A run
// without a broken tensor is inconclusive if
// - a tensor could not be read, or a part of a merge is missing,
// - less than half of its tensors could be judged,
// - a recorded loss, gradient norm or main gradient could not be judged, or the trace lacks one
// that the step computes, - the factor that a loss was multiplied by is not recorded, - the
// gradients or the updates of more than a tenth of the parameters were not judged, - no parameter
// moved in a step that claims an update (but in a first one whose learning rate is 0), - the
// specification does not say what some tensor of the step follows from, or by it the loss does not
// follow from a parameter that gets a gradient. Of a part of a divided audit only the tensors that
// it judges itself count. `lost_ranks` is the number of ranks whose files cannot be read.
void reach_verdict(std::size_t lost_ranks, const trace::Manifest& manifest, AuditReport& report);

}  // namespace ttrace::audit
